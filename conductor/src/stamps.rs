//! Heartbeats that have come but are not written yet. What is lost with them
//! when the process dies is a second of silence: they are written together,
//! not one by one with a flush of the disk each.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::PoisonError;

use jiff::Timestamp;
use uuid::Uuid;
use wrought_store::node::Node;

use crate::error::Error;
use crate::error::chain;
use crate::internal;
use crate::service::Service;
use crate::task::store;

/// The last heartbeat of each node that called since they were written.
#[derive(Debug, Default)]
pub(crate) struct Stamps(Mutex<HashMap<Uuid, Timestamp>>);

impl Stamps {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a heartbeat.
    pub(crate) fn note(&self, node: Uuid, at: Timestamp) {
        self.lock().insert(node, at);
    }

    /// Takes out what has come.
    pub(crate) fn take(&self) -> Vec<(Uuid, Timestamp)> {
        self.lock().drain().collect()
    }
}

/// When the node's agent last called.
pub(crate) async fn last_call(svc: &Service, node: &Node) -> Result<Option<Timestamp>, Error> {
    let pending = svc.stamps.lock().get(&node.uuid).copied();
    let first: Option<Timestamp> = internal::read(node, internal::AGENT_LAST_HEARTBEAT);
    let written = svc.store.last_heartbeat(node.uuid).await;
    let written = written.map_err(store("read a heartbeat"))?;
    Ok(written.max(pending).max(first))
}

/// Whether the node's agent has called after a moment.
pub(crate) async fn called_since(
    svc: &Service,
    node: &Node,
    since: Timestamp,
) -> Result<bool, Error> {
    Ok(last_call(svc, node).await? > Some(since))
}

/// Writes what has come; tells from how many nodes.
pub(crate) async fn flush(svc: &Service) -> usize {
    let come = svc.stamps.take();
    let count = come.len();
    if let Err(error) = svc.store.stamp_heartbeats(come).await {
        // The agents call again.
        tracing::warn!(err = %chain(&error), "heartbeats not noted");
    }
    count
}
