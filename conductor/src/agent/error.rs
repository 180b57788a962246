//! How a call to an agent fails.

use super::pin::PinError;

/// A failed call; never holds the token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The node has no agent that is known to run.
    #[error("the node has no agent: no heartbeat since the machine was last started")]
    NoAgent,
    /// The agent's address is not usable.
    #[error("agent address {url:?} is not usable: {reason}")]
    BadUrl {
        /// The address.
        url: String,
        /// Why.
        reason: String,
    },
    /// The certificate from the heartbeat is not usable.
    #[error("the agent's certificate cannot be pinned")]
    Pin(#[from] PinError),
    /// Nothing answers.
    #[error("agent at {url} does not answer")]
    Connect {
        /// Base address.
        url: String,
        /// What the connection said.
        #[source]
        source: reqwest::Error,
    },
    /// Something else answers than the agent that sent the heartbeat.
    #[error("agent at {url} shows another certificate than the one of its heartbeat")]
    OtherCertificate {
        /// Base address.
        url: String,
    },
    /// The agent does not take our token.
    #[error("agent at {url} refuses our token: it is not the one we gave the token to")]
    Token {
        /// Base address.
        url: String,
    },
    /// Another command runs (409).
    #[error("agent at {url} is busy: {message}")]
    Busy {
        /// Base address.
        url: String,
        /// What it says.
        message: String,
    },
    /// The agent refused the command.
    #[error("agent at {url} answered {command} with status {status}: {message}")]
    Refused {
        /// Base address.
        url: String,
        /// The command or request.
        command: String,
        /// HTTP status.
        status: u16,
        /// What it says.
        message: String,
    },
    /// The answer is not what the protocol says.
    #[error("agent at {url} answered {command} with something that is not a command result")]
    Malformed {
        /// Base address.
        url: String,
        /// The command or request.
        command: String,
        /// What the decoder says.
        #[source]
        source: serde_json::Error,
    },
    /// The answer is too long.
    #[error("agent at {url} answered {command} with more than {limit} bytes")]
    TooLong {
        /// Base address.
        url: String,
        /// The command or request.
        command: String,
        /// The bound.
        limit: usize,
    },
    /// The agent does not know the command that it was given.
    #[error("agent at {url} does not know the command any more: it was started anew meanwhile")]
    Forgot {
        /// Base address.
        url: String,
    },
    /// The command ran and failed.
    #[error("agent command {command} failed: {details}")]
    Failed {
        /// The command.
        command: String,
        /// The agent's whole story.
        details: String,
    },
}

impl Error {
    /// Whether the agent may not have got the request at all, so that asking
    /// again is of use.
    pub fn is_connection(&self) -> bool {
        matches!(self, Self::Connect { .. })
    }

    /// Whether the agent has other work.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }

    /// Whether this proves that the agent we knew is gone for good.
    pub fn is_stranger(&self) -> bool {
        matches!(self, Self::OtherCertificate { .. } | Self::Token { .. })
    }
}
