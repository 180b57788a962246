//! How the store fails.

use std::sync::Arc;

use uuid::Uuid;

/// Outcome of a call to the store.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another node or port has the name.
    #[error("a {what} with the name {name:?} exists already")]
    DuplicateName {
        /// "node" or "port".
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Another row of that table has the UUID.
    #[error("a {what} with the UUID {uuid} exists already")]
    DuplicateUuid {
        /// "node" or "port".
        what: &'static str,
        /// The UUID.
        uuid: Uuid,
    },
    /// Another port or portgroup has the MAC address.
    #[error("a {what} with the MAC address {address} exists already ({what} {other})")]
    DuplicateAddress {
        /// "port" or "portgroup".
        what: &'static str,
        /// The address.
        address: String,
        /// The row that has it.
        other: Uuid,
    },
    /// Another row has values that only one may have together.
    #[error("a {what} with {values} exists already ({other})")]
    Duplicate {
        /// "volume connector", "volume target"…
        what: &'static str,
        /// The values with their names.
        values: String,
        /// The row that has them.
        other: Uuid,
    },
    /// The row changed after it was read.
    #[error("{what} {uuid} was changed after it was read: read it again")]
    Changed {
        /// "port", "chassis"…
        what: &'static str,
        /// Which.
        uuid: Uuid,
    },
    /// Others refer to the row, so that it cannot be deleted.
    #[error("{what} {uuid} is still in use")]
    InUse {
        /// "portgroup", "chassis"…
        what: &'static str,
        /// Which.
        uuid: Uuid,
    },
    /// Another node is associated with the instance.
    #[error("instance {instance} is already associated with node {node}")]
    InstanceAssociated {
        /// The instance.
        instance: Uuid,
        /// The node that has it.
        node: Uuid,
    },
    /// There is no such row.
    #[error("{what} {ident:?} could not be found")]
    NotFound {
        /// "node", "port", "conductor"…
        what: &'static str,
        /// UUID or name.
        ident: String,
    },
    /// The marker of a page names no row.
    #[error("paging marker {marker} names no {what}: start again without a marker")]
    MarkerNotFound {
        /// "node", "port"…
        what: &'static str,
        /// The marker.
        marker: Uuid,
    },
    /// The list cannot be sorted by that key.
    #[error("the sort_key {key:?} is not valid for a {what}: use a column that holds no object")]
    InvalidSortKey {
        /// "node", "port"…
        what: &'static str,
        /// The key.
        key: String,
    },
    /// The addresses belong to ports of more than one node.
    #[error("the addresses {addresses:?} belong to more than one node: {nodes:?}")]
    AmbiguousAddresses {
        /// The addresses asked for.
        addresses: Vec<String>,
        /// The nodes that have them.
        nodes: Vec<Uuid>,
    },
    /// The lock ran out and somebody else took it, or it was released.
    #[error(
        "the lock of {owner} on node {node} (epoch {epoch}) is lost: the change was not stored, read the node again under a new lock"
    )]
    LeaseLost {
        /// The node.
        node: Uuid,
        /// Who held it.
        owner: String,
        /// The epoch of the lost lease.
        epoch: i64,
    },
    /// A node was to be saved under the lease of another.
    #[error("node {node} cannot be saved under the lock of node {lease}")]
    WrongLease {
        /// The node to be saved.
        node: Uuid,
        /// The node that the lease is for.
        lease: Uuid,
    },
    /// A stored value cannot be read.
    #[error("{table}.{column} of row {row} holds a value that cannot be read")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// The column.
        column: String,
        /// UUID or number of the row.
        row: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The database URL cannot be used.
    #[error("database URL {url:?} cannot be used: {reason}")]
    BadUrl {
        /// The URL as given, without a password.
        url: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The database file cannot be made or opened.
    #[error("cannot open the database file {path}")]
    File {
        /// Its path.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Another server works with the database, and one of the two shares it
    /// with nobody.
    #[error(
        "another server works with this database: `wrought serve` shares it with nobody; stop that one, or give this one another --database"
    )]
    Taken,
    /// Another process works with the SQLite file.
    #[error(
        "the SQLite database {path} is in use by process {process}, and serves one: stop that one, or give this one another --database; several conductors share a PostgreSQL database"
    )]
    InUseBy {
        /// The file.
        path: String,
        /// The number of the process.
        process: String,
    },
    /// The database cannot be shared by several processes.
    #[error(
        "an SQLite database serves one process: several conductors need PostgreSQL (--database postgres://USER:PASSWORD@HOST/DATABASE), one server alone is `wrought serve`"
    )]
    NotShared,
    /// The database was written by a newer program.
    #[error(
        "the database has schema version {found}, this program knows versions up to {known}: use the newer program, or restore the backup made before it ran"
    )]
    SchemaTooNew {
        /// Version in the database.
        found: i64,
        /// Newest version known here.
        known: i64,
    },
    /// A group of changes could not be committed; none of them was stored.
    #[error("the change could not be committed to the database")]
    Commit(#[source] Arc<sqlx::Error>),
    /// The connection was lost before the change was made, or before it was
    /// known whether it was.
    #[error("the connection to the database was lost: whether the change was stored is not known")]
    Cut,
    /// The store has been closed.
    #[error("the database is closed")]
    Closed,
    /// The database failed.
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
}

impl Error {
    /// Whether the database itself failed (full, gone, closed), rather than
    /// what is in it or what was asked of it: it may do better later.
    pub fn is_unavailable(&self) -> bool {
        let failed = |error: &sqlx::Error| match error.as_database_error() {
            Some(error) => matches!(error.kind(), sqlx::error::ErrorKind::Other),
            None => true,
        };
        match self {
            Self::Closed => true,
            Self::Commit(error) => failed(error),
            Self::Database(error) => failed(error),
            _ => false,
        }
    }

    /// A node that is not there.
    pub(crate) fn no_node(ident: impl ToString) -> Self {
        Self::NotFound {
            what: "node",
            ident: ident.to_string(),
        }
    }

    /// Whether the same may well go right a little later: the connection was
    /// cut, the server restarts, or another process was in the way.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Cut => true,
            Self::Commit(source) => is_passing(source),
            Self::Database(source) => is_passing(source),
            _ => false,
        }
    }
}

/// Classes and codes of PostgreSQL for what passes: connections, conflicts
/// with other transactions, limits of time, shut-downs and starts.
const PASSING: [&str; 9] = [
    "08", "40001", "40P01", "53300", "55P03", "57014", "57P", "25P03", "25P02",
];

fn is_passing(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(error) => error
            .code()
            .is_some_and(|code| PASSING.iter().any(|known| code.starts_with(known))),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Error;

    #[test]
    fn what_passes_is_told_from_what_does_not() {
        let io = || sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
        assert!(Error::Cut.is_passing());
        assert!(Error::Database(io()).is_passing());
        assert!(Error::Commit(Arc::new(io())).is_passing());
        for lasting in [
            Error::Closed,
            Error::Taken,
            Error::Database(sqlx::Error::RowNotFound),
        ] {
            assert!(!lasting.is_passing(), "{lasting}");
        }
    }
}
