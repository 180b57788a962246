//! What goes wrong in a conductor, and how the API is told.

use uuid::Uuid;
use wrought_wire::state::ProvisionState;

use crate::agent;
use crate::machine::Rejected;

/// An error of another library whose own type does not matter here.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// A failed operation. Each layer says one clause; [`chain`] joins them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such node.
    #[error("Node {0} could not be found.")]
    NodeNotFound(String),
    /// No such thing, whole sentence.
    #[error("{0}")]
    NotFound(String),
    /// Somebody works on the node.
    #[error(
        "Node {node} is locked by host {host}, please retry after the current operation is completed."
    )]
    Locked {
        /// The node.
        node: Uuid,
        /// Who has it.
        host: String,
    },
    /// Our lock on the node ran out or was taken over; nothing may be touched
    /// any more.
    #[error("the lock on node {0} is no longer ours")]
    LeaseLost(Uuid),
    /// Another conductor looks after the node.
    #[error("Conductor {host} does not look after node {node}; {} does.", owner.as_deref().unwrap_or("none"))]
    NotMine {
        /// The node.
        node: Uuid,
        /// This conductor.
        host: String,
        /// The one that does, as far as is known.
        owner: Option<String>,
    },
    /// The conductor is leaving: whoever looks after the node then goes on
    /// from its record.
    #[error("the conductor is ending, work on node {0} is left to the next one")]
    Ending(Uuid),
    /// The state machine has no such edge.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// A verb that the state does not allow.
    #[error(
        "The requested action \"{verb}\" can not be performed on node \"{node}\" while it is in state \"{state}\"."
    )]
    WrongState {
        /// As it was asked for.
        verb: String,
        /// The node.
        node: Uuid,
        /// Its state.
        state: ProvisionState,
    },
    /// The request or the node's settings are wrong; whole sentence.
    #[error("{0}")]
    Invalid(String),
    /// The present state of things forbids it; whole sentence.
    #[error("{0}")]
    Conflict(String),
    /// It changed after it was read: what was worked out from it is void.
    #[error("{what} {uuid} was changed by another request in the meantime, please retry.")]
    Stale {
        /// `Node` or `Port`.
        what: &'static str,
        /// Which.
        uuid: Uuid,
    },
    /// The operator forbade it; whole sentence.
    #[error("{0}")]
    Forbidden(String),
    /// The driver has no such thing.
    #[error("Driver {driver} does not support {extension} (disabled or not implemented).")]
    Unsupported {
        /// The hardware type or interface.
        driver: String,
        /// What was asked for.
        extension: String,
    },
    /// Everybody is at work.
    #[error("{0}")]
    Busy(String),
    /// The BMC did not do it.
    #[error("BMC of node {node}: {action}")]
    Bmc {
        /// The node.
        node: Uuid,
        /// What was tried.
        action: String,
        /// What the BMC or the connection said.
        #[source]
        source: Source,
    },
    /// The machine did not reach the power state in time.
    #[error("node {node} did not reach {wanted} within {seconds} s: the BMC says {found}")]
    PowerTimeout {
        /// The node.
        node: Uuid,
        /// Wanted state.
        wanted: &'static str,
        /// Time given.
        seconds: u64,
        /// State seen last.
        found: String,
    },
    /// The agent did not do it.
    #[error("agent of node {node}: {action}")]
    Agent {
        /// The node.
        node: Uuid,
        /// What was tried.
        action: String,
        /// What happened.
        #[source]
        source: agent::Error,
    },
    /// The database did not do it.
    #[error("database: {action}")]
    Store {
        /// What was tried.
        action: &'static str,
        /// Why not.
        #[source]
        source: Source,
    },
    /// A boot artefact cannot be made or read.
    #[error("boot file {path}: {action}")]
    BootFile {
        /// The file.
        path: String,
        /// What was tried.
        action: &'static str,
        /// Why not.
        #[source]
        source: Source,
    },
    /// A step failed; whole sentence.
    #[error("{0}")]
    Step(String),
}

impl Error {
    /// Whether nothing more may be written, because the lock was lost or the
    /// node is left to another conductor.
    pub fn is_lease_lost(&self) -> bool {
        matches!(self, Self::LeaseLost(_) | Self::Ending(_))
    }
}

/// The error and its sources in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(source) = at {
        let clause = source.to_string();
        // Some libraries repeat their source in their own text.
        if !text.ends_with(&clause) {
            text.push_str(": ");
            text.push_str(&clause);
        }
        at = source.source();
    }
    text
}

/// Whether the database itself failed, rather than what is in it.
fn is_unavailable(source: &Source) -> bool {
    use wrought_store::Error;
    use wrought_store::LockError;
    let error = match source.downcast_ref::<LockError>() {
        Some(LockError::Store(error)) => Some(error),
        _ => source.downcast_ref::<Error>(),
    };
    error.is_some_and(Error::is_unavailable)
}

impl From<Error> for wrought_rpc::Error {
    fn from(error: Error) -> Self {
        use wrought_rpc::Kind;
        let kind = match &error {
            Error::NodeNotFound(_) | Error::NotFound(_) => Kind::NotFound,
            Error::Locked { .. } => Kind::NodeLocked,
            Error::Rejected(_) | Error::WrongState { .. } => Kind::InvalidState,
            Error::Invalid(_) => Kind::InvalidParameter,
            Error::Conflict(_) => Kind::Conflict,
            Error::Stale { .. } => Kind::Stale,
            // Another conductor goes on with the node.
            Error::LeaseLost(_) => Kind::NodeLocked,
            // Full, unreachable, being restored: nothing that the request is
            // to blame for, and worth trying again.
            Error::Store { source, .. } if is_unavailable(source) => Kind::Busy,
            Error::Forbidden(_) => Kind::Forbidden,
            Error::Unsupported { .. } => Kind::Unsupported,
            Error::NotMine { .. } => Kind::NotMine,
            Error::Busy(_) | Error::Ending(_) => Kind::Busy,
            Error::Bmc { .. } | Error::PowerTimeout { .. } | Error::Agent { .. } => Kind::Hardware,
            Error::Store { .. } | Error::BootFile { .. } | Error::Step(_) => Kind::Internal,
        };
        Self::new(kind, chain(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::Error;
    use super::chain;

    #[test]
    fn chain_joins_each_layer_once() {
        let inner = std::io::Error::other("no route to host");
        let error = Error::Store {
            action: "read a node",
            source: Box::new(inner),
        };
        assert_eq!(chain(&error), "database: read a node: no route to host");
    }

    #[test]
    fn a_database_that_cannot_be_used_is_no_fault_of_the_request() {
        let kind = |source| {
            let action = "save a node";
            wrought_rpc::Error::from(Error::Store { action, source }).kind
        };
        let closed = wrought_store::Error::Closed;
        assert_eq!(kind(Box::new(closed)), wrought_rpc::Kind::Busy);
        let corrupt = wrought_store::Error::Corrupt {
            table: "nodes",
            column: "extra".to_owned(),
            row: "x".to_owned(),
            source: "no JSON".into(),
        };
        assert_eq!(kind(Box::new(corrupt)), wrought_rpc::Kind::Internal);
    }
}
