//! How a call to a conductor fails.

use serde::Deserialize;
use serde::Serialize;

/// The kinds of failure; each has one HTTP status, given by the API alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Kind {
    /// The node, port or driver does not exist (404).
    NotFound,
    /// The request is wrong in itself or for this node (400).
    InvalidParameter,
    /// The node's state does not allow it (400, or 409 for deletes and updates: see [`Kind::Conflict`]).
    InvalidState,
    /// The node is locked (409).
    NodeLocked,
    /// Something with that name, address or association exists, or the state forbids it now (409).
    Conflict,
    /// The node or port changed after the caller read it: read it again (409).
    Stale,
    /// Forbidden for this node, such as a protected one (403).
    Forbidden,
    /// The driver does not offer it (400).
    Unsupported,
    /// Too much is going on; try again later (503).
    Busy,
    /// Another conductor looks after the node: whoever routed the call looks
    /// again (503 where that did not help).
    NotMine,
    /// The BMC or another peer failed (500).
    Hardware,
    /// A fault of ours (500).
    Internal,
}

/// A failed call: its kind and the whole sentence for the caller.
#[derive(Debug, Clone, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct Error {
    /// What kind.
    pub kind: Kind,
    /// Object, expected, found, what to do.
    pub message: String,
}

impl Error {
    /// An error of a kind with its message.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}
