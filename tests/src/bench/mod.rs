//! Benchmarks that back the rows of SPECIFICATION.md.

pub mod api;
pub mod files;
pub mod image;
pub mod process;
