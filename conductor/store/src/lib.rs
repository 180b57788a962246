//! The database: one file per table. SQLite by default; the SQL keeps to what
//! SQLite and PostgreSQL share.

pub mod node;
pub mod port;
