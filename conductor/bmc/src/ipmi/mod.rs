//! IPMI 2.0 over LAN (RMCP+): the handful of commands that provisioning needs,
//! each in a session of its own.
//!
//! * [`Endpoint`] is where a BMC is and who we are, read from `driver_info`.
//! * `packet` is bytes ↔ messages, `crypto` the cipher suites; neither does
//!   I/O.
//! * `session` authenticates and exchanges messages over UDP, `chassis` and
//!   `boot` are the commands.
//!
//! A BMC has room for a few sessions and ends idle ones after a minute, so a
//! [`Client`] opens one for each operation, closes it, and lets its operations
//! go one after another. Section numbers in this module are those of the IPMI
//! specification 2.0, revision 1.1.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

mod boot;
mod cache;
mod chassis;
mod crypto;
mod endpoint;
mod error;
mod packet;
mod session;

pub use cache::Clients;
pub use crypto::Suite;
pub use endpoint::Endpoint;
pub use endpoint::Privilege;
pub use error::Error;

use session::Session;

/// Outcome of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Patience of a client.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// How long the answer to one datagram is waited for.
    pub response_timeout: Duration,
    /// How often a datagram is sent before the BMC counts as unreachable.
    pub attempts: u32,
    /// Pause between two looks at a state that is to be reached.
    pub poll: Duration,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            response_timeout: Duration::from_secs(2),
            attempts: 5,
            poll: Duration::from_secs(2),
        }
    }
}

struct Inner {
    endpoint: Endpoint,
    tuning: Tuning,
    /// One session at a time; holds the cipher suite that worked last.
    turn: tokio::sync::Mutex<Option<Suite>>,
}

/// One machine's BMC.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.inner.endpoint)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client of that BMC; nothing is sent yet.
    pub fn new(endpoint: Endpoint, tuning: Tuning) -> Self {
        Self {
            inner: Arc::new(Inner {
                endpoint,
                tuning,
                turn: tokio::sync::Mutex::new(None),
            }),
        }
    }

    /// Does `work` in a session, which is closed afterwards.
    async fn session<T>(&self, work: impl AsyncFnOnce(&mut Session) -> Result<T>) -> Result<T> {
        let inner = &self.inner;
        let mut known = inner.turn.lock().await;
        let mut session = match Session::open(&inner.endpoint, &inner.tuning, *known).await {
            Ok(session) => session,
            Err(error) => {
                // The BMC may have been replaced; the next try asks anew.
                *known = None;
                return Err(error);
            }
        };
        *known = Some(session.suite());
        let outcome = work(&mut session).await;
        session.close().await;
        outcome
    }
}
