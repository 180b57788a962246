//! One connection to either database, and statements for it. The SQL is the
//! same for both; what differs is here and in [`crate::migrate`].

use sqlx::Connection as _;
use sqlx::Executor as _;
use sqlx::PgConnection;
use sqlx::Postgres;
use sqlx::Row as _;
use sqlx::SqlSafeStr;
use sqlx::Sqlite;
use sqlx::SqliteConnection;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

use crate::codec::Cell;
use crate::local;
use crate::local::LocalRow;

/// Which database it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

/// A connection: one of its own, or one of a pool.
pub(crate) enum Db {
    Sqlite(SqliteConnection),
    SqliteReader(PoolConnection<Sqlite>),
    Postgres(PgConnection),
    PostgresReader(PoolConnection<Postgres>),
    /// Answers on this thread, so that no future that uses it ever waits.
    Local(local::Connection),
}

/// A row of an answer.
pub enum DbRow {
    /// Of SQLite.
    Sqlite(SqliteRow),
    /// Of PostgreSQL.
    Postgres(PgRow),
    /// Of SQLite, read on this thread.
    Local(LocalRow),
}

impl std::fmt::Debug for DbRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Rows hold secrets.
        f.debug_struct("DbRow").finish_non_exhaustive()
    }
}

enum Connection<'c> {
    Sqlite(&'c mut SqliteConnection),
    Postgres(&'c mut PgConnection),
    Local(&'c mut local::Connection),
}

/// Binds the cells to a statement, in order.
macro_rules! bound {
    ($sql:expr, $cells:expr) => {
        $cells
            .into_iter()
            .fold(sqlx::query($sql), |query, cell| match cell {
                Cell::Text(text) => query.bind(text.map(without_nul)),
                Cell::Int(number) => query.bind(number),
            })
    };
}

type Outcome<T> = std::result::Result<T, sqlx::Error>;

/// A text as both databases can keep it: PostgreSQL has no character NUL, and
/// SQLite's functions stop at it. What machines and BMCs say may have some.
fn without_nul(text: String) -> String {
    match text.contains('\0') {
        true => text.replace('\0', "\u{fffd}"),
        false => text,
    }
}

impl Db {
    /// Which database it is.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Sqlite(_) | Self::SqliteReader(_) | Self::Local(_) => Kind::Sqlite,
            Self::Postgres(_) | Self::PostgresReader(_) => Kind::Postgres,
        }
    }

    fn connection(&mut self) -> Connection<'_> {
        match self {
            Self::Sqlite(connection) => Connection::Sqlite(connection),
            Self::SqliteReader(connection) => Connection::Sqlite(connection),
            Self::Postgres(connection) => Connection::Postgres(connection),
            Self::PostgresReader(connection) => Connection::Postgres(connection),
            Self::Local(connection) => Connection::Local(connection),
        }
    }

    /// Runs a statement; the number of rows that it changed.
    pub(crate) async fn execute(
        &mut self,
        sql: impl SqlSafeStr,
        cells: impl IntoIterator<Item = Cell>,
    ) -> Outcome<u64> {
        match self.connection() {
            Connection::Sqlite(connection) => {
                let done = bound!(sql, cells).execute(connection).await?;
                Ok(done.rows_affected())
            }
            Connection::Postgres(connection) => {
                let done = bound!(sql, cells).execute(connection).await?;
                Ok(done.rows_affected())
            }
            Connection::Local(_) => Err(only_reads()),
        }
    }

    /// Runs statements that take nothing and answer nothing.
    pub(crate) async fn run(&mut self, sql: impl SqlSafeStr) -> Outcome<()> {
        match self.connection() {
            Connection::Sqlite(connection) => {
                connection.execute(sqlx::raw_sql(sql)).await.map(drop)
            }
            Connection::Postgres(connection) => {
                connection.execute(sqlx::raw_sql(sql)).await.map(drop)
            }
            Connection::Local(_) => Err(only_reads()),
        }
    }

    /// All rows of an answer.
    pub(crate) async fn all(
        &mut self,
        sql: impl SqlSafeStr,
        cells: impl IntoIterator<Item = Cell>,
    ) -> Outcome<Vec<DbRow>> {
        Ok(match self.connection() {
            Connection::Sqlite(connection) => {
                let rows = bound!(sql, cells).fetch_all(connection).await?;
                rows.into_iter().map(DbRow::Sqlite).collect()
            }
            Connection::Postgres(connection) => {
                let rows = bound!(sql, cells).fetch_all(connection).await?;
                rows.into_iter().map(DbRow::Postgres).collect()
            }
            Connection::Local(connection) => local_rows(connection, sql, cells, usize::MAX)?,
        })
    }

    /// The row of an answer, when there is one.
    pub(crate) async fn optional(
        &mut self,
        sql: impl SqlSafeStr,
        cells: impl IntoIterator<Item = Cell>,
    ) -> Outcome<Option<DbRow>> {
        Ok(match self.connection() {
            Connection::Sqlite(connection) => {
                let row = bound!(sql, cells).fetch_optional(connection).await?;
                row.map(DbRow::Sqlite)
            }
            Connection::Postgres(connection) => {
                let row = bound!(sql, cells).fetch_optional(connection).await?;
                row.map(DbRow::Postgres)
            }
            Connection::Local(connection) => local_rows(connection, sql, cells, 1)?.pop(),
        })
    }

    /// The one row of an answer.
    pub(crate) async fn one(
        &mut self,
        sql: impl SqlSafeStr,
        cells: impl IntoIterator<Item = Cell>,
    ) -> Outcome<DbRow> {
        let row = self.optional(sql, cells).await?;
        row.ok_or(sqlx::Error::RowNotFound)
    }

    /// Takes back what the job has done, after a statement of it failed:
    /// PostgreSQL answers nothing else before that.
    pub(crate) async fn recover(&mut self) -> Outcome<()> {
        match self.kind() {
            Kind::Sqlite => Ok(()),
            Kind::Postgres => self.run("ROLLBACK TO SAVEPOINT job").await,
        }
    }

    /// Has a connection of a pool ended instead of given back.
    pub(crate) fn give_up(&mut self) {
        match self {
            Self::SqliteReader(connection) => connection.close_on_drop(),
            Self::PostgresReader(connection) => connection.close_on_drop(),
            Self::Sqlite(_) | Self::Postgres(_) | Self::Local(_) => {}
        }
    }

    /// Ends a connection of its own in good order.
    pub(crate) async fn close(self) -> Outcome<()> {
        match self {
            Self::Sqlite(connection) => connection.close().await,
            Self::Postgres(connection) => connection.close().await,
            Self::SqliteReader(_) | Self::PostgresReader(_) | Self::Local(_) => Ok(()),
        }
    }
}

impl DbRow {
    /// A column of type TEXT.
    pub(crate) fn text(&self, index: usize) -> Outcome<Option<&str>> {
        match self {
            Self::Sqlite(row) => row.try_get(index),
            Self::Postgres(row) => row.try_get(index),
            Self::Local(row) => row.text(index).map_err(|reason| unread(index, reason)),
        }
    }

    /// A column of type BIGINT.
    pub(crate) fn int(&self, index: usize) -> Outcome<Option<i64>> {
        match self {
            Self::Sqlite(row) => row.try_get(index),
            Self::Postgres(row) => row.try_get(index),
            Self::Local(row) => row.int(index).map_err(|reason| unread(index, reason)),
        }
    }
}

/// The error for a change on a connection that only reads.
fn only_reads() -> sqlx::Error {
    sqlx::Error::Protocol("changes go through the writer's queue".to_owned())
}

/// The error for a value that is not of its column's type.
fn unread(column: usize, reason: &'static str) -> sqlx::Error {
    sqlx::Error::ColumnDecode {
        index: column.to_string(),
        source: reason.into(),
    }
}

fn local_rows(
    connection: &mut local::Connection,
    sql: impl SqlSafeStr,
    cells: impl IntoIterator<Item = Cell>,
    most: usize,
) -> Outcome<Vec<DbRow>> {
    let cells: Vec<Cell> = cells.into_iter().collect();
    let rows = connection.rows(sql.into_sql_str().as_str(), &cells, most);
    let rows = rows.map_err(|failed| sqlx::Error::Io(std::io::Error::other(failed)))?;
    Ok(rows.into_iter().map(DbRow::Local).collect())
}

/// Whether a statement failed for a value that must be unique.
pub(crate) fn is_unique(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .is_some_and(|error| error.is_unique_violation())
}

/// Whether a statement failed for a row that is referred to: one that is not
/// there, or one that was to go.
pub(crate) fn is_foreign(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .is_some_and(|error| error.is_foreign_key_violation())
}
