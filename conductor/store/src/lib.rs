//! The database: one file per table. SQLite by default, or PostgreSQL, which
//! several servers share; the SQL is the same and keeps to what both have.
//!
//! * One writer: every change is a job in one queue and runs on one
//!   connection. Jobs that wait together are committed together (one flush to
//!   the disk for all of them), each in a savepoint of its own. A job that is
//!   in the queue runs to its end, even if the caller has gone away.
//! * Many readers: a pool of read-only connections, and for single rows of
//!   SQLite connections that answer on the caller's thread. A call that came
//!   back has been committed, so every read that starts after it sees it.
//! * Several processes share a PostgreSQL database ([`Store::open_shared`]):
//!   every change names what it expects to find, lease, version or state, in
//!   the statement that makes it. Changes that may be made twice are tried
//!   again after the connection was cut or the server restarted.
//! * Commits survive a power cut (`synchronous=FULL`).
//! * Times are kept in microseconds: what is finer is cut off.

pub mod allocation;
pub mod bios;
pub mod change;
pub mod chassis;
pub mod conductor;
pub mod deploy_template;
pub mod error;
pub mod firmware;
pub mod heartbeat;
pub mod history;
pub mod inspection_rule;
pub mod inventory;
pub mod journal;
pub mod lock;
pub mod node;
pub mod page;
pub mod part;
pub mod port;
pub mod portgroup;
pub mod queue;
pub mod row;
pub mod runbook;
pub mod volume;

mod again;
mod clock;
mod codec;
mod db;
mod local;
mod migrate;
mod open;
mod packed;
mod select;
mod writer;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use allocation::Allocation;
pub use allocation::AllocationQuery;
pub use bios::BiosSetting;
pub use change::Change;
pub use chassis::Chassis;
pub use conductor::Conductor;
pub use conductor::Interfaces;
pub use conductor::Properties;
pub use conductor::Registration;
pub use conductor::Sign;
pub use deploy_template::DeployTemplate;
pub use error::Error;
pub use error::Result;
pub use firmware::FirmwareComponent;
pub use history::HistoryEntry;
pub use history::HistoryQuery;
pub use inspection_rule::InspectionRule;
pub use inspection_rule::InspectionRuleQuery;
pub use inventory::Inventory;
pub use journal::JournalEntry;
pub use journal::Phase;
pub use lock::Lease;
pub use lock::LockError;
pub use node::Node;
pub use node::query::NodeQuery;
pub use page::SortDir;
pub use part::Known;
pub use part::Part;
pub use port::Port;
pub use port::query::PortQuery;
pub use portgroup::Portgroup;
pub use portgroup::PortgroupQuery;
pub use row::Filter;
pub use row::PageQuery;
pub use row::Row;
pub use runbook::Runbook;
pub use volume::VolumeConnector;
pub use volume::VolumeTarget;

/// The database. A clone is another handle on the same one.
#[derive(Clone)]
pub struct Store {
    inner: std::sync::Arc<Inner>,
}

struct Inner {
    writer: writer::Writer,
    /// Absent for a database in memory, whose one connection does everything.
    readers: Option<open::Readers>,
    /// For short reads, where the database is a file of SQLite.
    locals: Option<local::Locals>,
    teller: change::Teller,
    clock: std::sync::Arc<clock::Clock>,
    /// Passes on what other processes tell.
    ear: Option<tokio::task::JoinHandle<()>>,
    /// Keeps other processes off an SQLite file; none once that is closed.
    claim: std::sync::Mutex<Option<open::Claim>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(ear) = &self.ear {
            ear.abort();
        }
    }
}

/// What changes nothing that others wait for.
pub(crate) fn nothing<T>(_: &T) -> Vec<Change> {
    Vec::new()
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Store {
    /// Runs `work` in the writer's queue, in a transaction.
    async fn write<T, E, F>(&self, work: F) -> std::result::Result<T, E>
    where
        F: for<'c> FnOnce(&'c mut db::Db) -> writer::Work<'c, T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.inner.writer.run(work).await
    }

    /// The clock that leases go by.
    fn clock(&self) -> std::sync::Arc<clock::Clock> {
        std::sync::Arc::clone(&self.inner.clock)
    }

    /// The same for what finds one row by its key, or very few: where the database is a
    /// file of SQLite, it is found on this thread.
    async fn read_row<T, F>(&self, work: F) -> Result<T>
    where
        F: for<'c> FnOnce(&'c mut db::Db) -> writer::Work<'c, T, Error> + Clone + Send + 'static,
        T: Send + 'static,
    {
        let locals = self.inner.locals.as_ref();
        let local = locals.and_then(|locals| Some((locals, locals.take()?)));
        let Some((locals, connection)) = local else {
            return self.read(work).await;
        };
        let mut db = db::Db::Local(connection);
        let outcome = work(&mut db).await;
        if let db::Db::Local(connection) = db {
            locals.give(connection);
        }
        outcome
    }

    /// Ends the connections after all queued writes. Further calls fail with
    /// [`Error::Closed`] or a pool error.
    pub async fn close(&self) {
        if let Some(ear) = &self.inner.ear {
            ear.abort();
        }
        self.inner.writer.close().await;
        if let Some(pool) = &self.inner.readers {
            pool.close().await;
        }
        if let Some(locals) = &self.inner.locals {
            locals.close();
        }
        let claim = &self.inner.claim;
        let mut claim = claim
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *claim = None;
    }
}
