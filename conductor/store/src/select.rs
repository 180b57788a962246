//! Statements that are put together from parts, with their arguments.

use std::fmt::Display;
use std::fmt::Write as _;

use sqlx::AssertSqlSafe;

use crate::codec::Cell;
use crate::db::Db;
use crate::db::DbRow;

type Outcome<T> = std::result::Result<T, sqlx::Error>;

/// A statement in the making. Parts are constants of this program; what comes
/// from outside is bound.
#[derive(Debug, Default)]
pub struct Select {
    sql: String,
    cells: Vec<Cell>,
}

impl Select {
    /// A statement that begins like this.
    pub(crate) fn new(sql: impl Into<String>) -> Self {
        Self {
            sql: sql.into(),
            cells: Vec::new(),
        }
    }

    /// Goes on with a part.
    pub(crate) fn push(&mut self, part: impl Display) -> &mut Self {
        // Writing to a String does not fail.
        let _ = write!(self.sql, "{part}");
        self
    }

    /// Goes on with an argument.
    pub(crate) fn push_bind(&mut self, value: impl Into<Cell>) -> &mut Self {
        self.cells.push(value.into());
        let _ = write!(self.sql, "${}", self.cells.len());
        self
    }

    /// Goes on with arguments between commas.
    pub(crate) fn push_list(&mut self, values: impl IntoIterator<Item = Cell>) -> &mut Self {
        for (number, value) in values.into_iter().enumerate() {
            if number > 0 {
                self.sql.push_str(", ");
            }
            self.push_bind(value);
        }
        self
    }

    /// Runs it; the number of rows that it changed.
    pub(crate) async fn execute(self, db: &mut Db) -> Outcome<u64> {
        db.execute(AssertSqlSafe(self.sql), self.cells).await
    }

    /// All rows of its answer.
    pub(crate) async fn all(self, db: &mut Db) -> Outcome<Vec<DbRow>> {
        db.all(AssertSqlSafe(self.sql), self.cells).await
    }

    /// The row of its answer, when there is one.
    pub(crate) async fn optional(self, db: &mut Db) -> Outcome<Option<DbRow>> {
        db.optional(AssertSqlSafe(self.sql), self.cells).await
    }

    /// The one row of its answer.
    pub(crate) async fn one(self, db: &mut Db) -> Outcome<DbRow> {
        db.one(AssertSqlSafe(self.sql), self.cells).await
    }
}
