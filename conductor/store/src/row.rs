//! Tables whose rows are named by a UUID: one way of making, finding, listing,
//! saving and deleting for all of them. A table gives its columns and what
//! must be unique; the rest is here.

mod run;

use std::sync::OnceLock;

use jiff::Timestamp;
use uuid::Uuid;

use crate::Error;
use crate::Result;
use crate::codec;
use crate::codec::Cell;
use crate::db::DbRow;
use crate::page::Listed;
use crate::page::Page;
use crate::page::SortDir;
use crate::select::Select;

/// A record that one row of a table holds.
pub trait Row: Clone + Send + Sync + 'static {
    /// Its table.
    fn table() -> &'static Table;
    /// Identity.
    fn uuid(&self) -> Uuid;
    /// Gives a new record another identity.
    fn set_uuid(&mut self, uuid: Uuid);
    /// When it was made.
    fn created_at(&self) -> Timestamp;
    /// When it last changed: which version of it this is.
    fn updated_at(&self) -> Option<Timestamp>;
    /// Makes it another version.
    fn set_updated_at(&mut self, at: Timestamp);
    /// Brings values to the form that they are stored in.
    fn normalise(&mut self) {}
    /// From a row with the table's columns in order. Fails with
    /// [`Error::Corrupt`].
    fn read(row: &DbRow) -> Result<Self>;
    /// Values of the table's columns in order.
    fn cells(&self) -> Vec<Cell>;
}

/// Which rows of a table are wanted.
pub trait Filter: Clone + Send + Sync + 'static {
    /// What it picks from.
    type Row: Row;
    /// Appends ` AND …` for each condition.
    fn push(&self, select: &mut Select);
}

/// Which part of a list is wanted.
#[derive(Debug, Clone, Default)]
pub struct PageQuery {
    /// Column to sort by; none: the order of creation.
    pub sort_key: Option<String>,
    /// Direction.
    pub sort_dir: SortDir,
    /// Go on after this row.
    pub marker: Option<Uuid>,
    /// At most so many.
    pub limit: Option<u32>,
}

impl PageQuery {
    fn page(&self) -> Page<'_> {
        Page {
            sort_key: self.sort_key.as_deref(),
            sort_dir: self.sort_dir,
            marker: self.marker,
            limit: self.limit,
        }
    }
}

/// Columns whose values together no two rows share.
#[derive(Debug)]
pub(crate) struct Unique {
    /// The columns.
    pub(crate) columns: &'static [&'static str],
    /// The error for the values and the row that has them.
    pub(crate) taken: fn(values: &[String], other: Uuid) -> Error,
}

/// A column that holds the UUID of a row of another table.
#[derive(Debug)]
pub(crate) struct Reference {
    /// The column.
    pub(crate) column: &'static str,
    /// The other table's name in SQL.
    pub(crate) table: &'static str,
    /// What its rows are called in errors.
    pub(crate) what: &'static str,
}

impl Reference {
    /// The column `node_uuid`.
    pub(crate) const NODE: Self = Self {
        column: "node_uuid",
        table: "nodes",
        what: "node",
    };
}

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Its name in SQL.
    name: &'static str,
    /// What a row is called in errors.
    what: &'static str,
    /// The columns in order; the first two are written once.
    columns: &'static [&'static str],
    /// Columns that a list can be sorted by.
    sortable: &'static [&'static str],
    unique: &'static [Unique],
    references: &'static [Reference],
    sql: OnceLock<Sql>,
}

/// Columns that are written once: `uuid` and `created_at`.
const UNCHANGING: usize = 2;

#[derive(Debug)]
struct Sql {
    select: String,
    insert: String,
    update: String,
    delete: String,
}

impl Table {
    pub(crate) const fn new(
        name: &'static str,
        what: &'static str,
        columns: &'static [&'static str],
        sortable: &'static [&'static str],
        unique: &'static [Unique],
        references: &'static [Reference],
    ) -> Self {
        Self {
            name,
            what,
            columns,
            sortable,
            unique,
            references,
            sql: OnceLock::new(),
        }
    }

    /// What a row is called in errors.
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// The columns of a row, for reading them one after the other.
    pub(crate) fn columns<'r>(&self, row: &'r DbRow) -> codec::Columns<'r> {
        codec::Columns::new(row, self.name, self.columns)
    }

    fn sql(&self) -> &Sql {
        self.sql.get_or_init(|| {
            let (name, columns) = (self.name, self.columns.join(", "));
            let values = codec::placeholders(self.columns.len());
            let changing = self.columns.get(UNCHANGING..).unwrap_or_default();
            let sets = changing.iter().enumerate();
            let sets: Vec<String> = sets
                .map(|(at, column)| format!("{column} = ${}", at + 1))
                .collect();
            let (uuid, version) = (changing.len() + 1, changing.len() + 2);
            Sql {
                select: format!("SELECT {columns} FROM {name}"),
                insert: format!("INSERT INTO {name} ({columns}) VALUES ({values})"),
                update: format!(
                    "UPDATE {name} SET {} WHERE uuid = ${uuid} AND COALESCE(updated_at, 0) = ${version}",
                    sets.join(", ")
                ),
                delete: format!("DELETE FROM {name} WHERE uuid = $1"),
            }
        })
    }

    fn listed(&self) -> Listed {
        Listed {
            table: self.name,
            what: self.what,
            sortable: self.sortable,
        }
    }

    fn missing(&self, uuid: Uuid) -> Error {
        Error::NotFound {
            what: self.what,
            ident: uuid.to_string(),
        }
    }
}

/// What rows of all tables say in the same way, from their fields `uuid`,
/// `created_at` and `updated_at`.
macro_rules! identity {
    ($table:ident) => {
        fn table() -> &'static $crate::row::Table {
            &$table
        }

        fn uuid(&self) -> uuid::Uuid {
            self.uuid
        }

        fn set_uuid(&mut self, uuid: uuid::Uuid) {
            self.uuid = uuid;
        }

        fn created_at(&self) -> jiff::Timestamp {
            self.created_at
        }

        fn updated_at(&self) -> Option<jiff::Timestamp> {
            self.updated_at
        }

        fn set_updated_at(&mut self, at: jiff::Timestamp) {
            self.updated_at = Some(at);
        }
    };
}

/// Another row has the name: for tables with a unique `name`.
macro_rules! unique_name {
    ($what:literal) => {
        $crate::row::Unique {
            columns: &["name"],
            taken: |values, _| $crate::Error::DuplicateName {
                what: $what,
                name: values.concat(),
            },
        }
    };
}

pub(crate) use identity;
pub(crate) use unique_name;

#[cfg(test)]
mod tests;
