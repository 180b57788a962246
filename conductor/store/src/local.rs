//! Short reads from SQLite on the caller's own thread. A driver that works on
//! threads of its own costs more for one row than the row: two changes of
//! thread and a copy of every value. So a row that is found by its key is read
//! here and now, from pages that are nearly always in memory; whatever may
//! take longer goes through the pool.

mod sqlite;

use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;

pub(crate) use sqlite::Connection;
pub(crate) use sqlite::LocalRow;

/// Connections that are kept; there are never more in use than threads that
/// work on requests.
const KEPT: usize = 4;

/// Connections to one file, made when they are needed.
pub(crate) struct Locals {
    path: PathBuf,
    /// None once they are ended.
    idle: Mutex<Option<Vec<Connection>>>,
}

impl Locals {
    /// For the database at `path`.
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            idle: Mutex::new(Some(Vec::new())),
        }
    }

    /// One that nobody uses; none when they are ended or none can be made.
    pub(crate) fn take(&self) -> Option<Connection> {
        let kept = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.as_mut()?.pop()
        };
        kept.or_else(|| {
            Connection::open(&self.path)
                .inspect_err(|error| tracing::debug!(%error, "no further reading connection"))
                .ok()
        })
    }

    /// Takes one back.
    pub(crate) fn give(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(idle) = idle.as_mut().filter(|idle| idle.len() < KEPT) {
            idle.push(connection);
        }
    }

    /// Ends them all.
    pub(crate) fn close(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        drop(idle.take());
    }
}

#[cfg(test)]
mod tests;
