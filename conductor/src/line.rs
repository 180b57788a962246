//! Waiting for the lock of a node. Those of one process wait in a line: the
//! first tries for the lock, the others come after it in the order in which
//! they came. Between processes there is no order; there the first ones of each
//! line compete.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio::time::timeout_at;
use uuid::Uuid;
use wrought_store::lock::Lease;
use wrought_store::lock::LockError;

use crate::error::Error;
use crate::service::Service;
use crate::task::store;

/// First pause between two tries for a lock, if nobody says that it is free; it
/// doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(40);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The lines before all nodes that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Lines(Mutex<HashMap<Uuid, Arc<Line>>>);

#[derive(Debug, Default)]
struct Line {
    /// Held by the first; given on in the order of coming.
    turn: tokio::sync::Mutex<()>,
    freed: Notify,
    /// Who had the lock when the first last tried.
    holder: Mutex<Option<String>>,
}

impl Line {
    fn holder(&self) -> MutexGuard<'_, Option<String>> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in a line, given up when it is dropped.
struct Place<'l> {
    lines: &'l Lines,
    node: Uuid,
    line: Arc<Line>,
}

impl Lines {
    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Arc<Line>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, node: Uuid) -> Place<'_> {
        let line = Arc::clone(self.lock().entry(node).or_default());
        Place {
            lines: self,
            node,
            line,
        }
    }

    /// Says that the lock of a node may be free.
    pub(crate) fn freed(&self, node: Uuid) {
        if let Some(line) = self.lock().get(&node) {
            line.freed.notify_one();
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.lines.lock();
        // The map's own and this one.
        if Arc::strong_count(&self.line) <= 2 {
            lines.remove(&self.node);
        }
    }
}

/// Locks a node, waiting for it in its line until `patience` is over. Gives
/// the moment at which the lease was asked for along with it.
pub(crate) async fn lock(
    svc: &Service,
    node: Uuid,
    patience: Duration,
) -> Result<(Lease, Instant), Error> {
    let deadline = Instant::now() + patience;
    let place = svc.lines.join(node);
    let line = &place.line;
    let locked = || {
        let host = line.holder().clone();
        let host = host.unwrap_or_else(|| svc.config.host.clone());
        Error::Locked { node, host }
    };
    // Nobody goes past those who wait, not even who would not wait himself.
    let _turn = match line.turn.try_lock() {
        Ok(turn) => turn,
        Err(_) if patience.is_zero() => return Err(locked()),
        Err(_) => timeout_at(deadline, line.turn.lock())
            .await
            .map_err(|_| locked())?,
    };
    let mut pause = PAUSE;
    loop {
        let asked = Instant::now();
        let ttl = svc.config.pace.lease;
        match svc.store.lock_node(node, &svc.config.host, ttl).await {
            Ok(lease) => return Ok((lease, asked)),
            Err(LockError::NotFound(_)) => return Err(Error::NodeNotFound(node.to_string())),
            Err(LockError::Held { owner, .. }) => *line.holder() = Some(owner),
            Err(LockError::Store(source)) => return Err(store("lock a node")(source)),
            Err(other) => {
                return Err(Error::Store {
                    action: "lock a node",
                    source: Box::new(other),
                });
            }
        }
        let now = Instant::now();
        if now >= deadline {
            return Err(locked());
        }
        let until = deadline.min(now + pause);
        // Woken or not, it is tried again.
        let _ = timeout_at(until, line.freed.notified()).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
