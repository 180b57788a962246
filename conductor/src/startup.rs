//! What an earlier life of this conductor left behind.

use std::sync::Arc;

use wrought_store::NodeQuery;
use wrought_store::node::Node;
use wrought_wire::state::PowerState;
use wrought_wire::state::PowerTarget;

use crate::admission;
use crate::error::Error;
use crate::error::chain;
use crate::flows;
use crate::flows::Work;
use crate::flows::failure;
use crate::machine;
use crate::periodic::pages::Pages;
use crate::service::Service;
use crate::takeover;
use crate::task::Task;
use crate::task::store;

/// Frees this host's locks and goes on with each of its nodes from its record.
pub(crate) async fn go_on(svc: &Arc<Service>) -> Result<(), Error> {
    let freed = svc.store.release_all(&svc.config.host).await;
    let freed = freed.map_err(store("free locks"))?;
    if !freed.is_empty() {
        tracing::info!(nodes = freed.len(), "locks of an earlier life freed");
    }
    let query = NodeQuery {
        include_children: true,
        ..NodeQuery::default()
    };
    let mut pages = Pages::of(svc, query);
    while let Some(nodes) = pages.try_next().await.map_err(store("list nodes"))? {
        for node in nodes.iter().filter(|node| svc.owns(node)) {
            // Another conductor may hold it yet: then it is taken over.
            if node.reservation.is_some() {
                continue;
            }
            if let Some(work) = left_behind(node) {
                begin(svc, node, work);
            } else if machine::is_waiting(node.provision_state) {
                svc.watch(node.uuid);
            }
        }
    }
    Ok(())
}

/// What is to be done on a node that nobody is at, if anything is.
pub(crate) fn left_behind(node: &Node) -> Option<Work> {
    if admission::is_queued(node) {
        // It keeps its place.
        return None;
    }
    if machine::is_working(node.provision_state) {
        return Some(Work::Restart);
    }
    if failure::has_leftovers(node) {
        return Some(Work::PutAway);
    }
    // A power request is a target: it is simply brought about.
    match node.target_power_state? {
        PowerState::On => Some(Work::Power(PowerTarget::On, None)),
        PowerState::Off => Some(Work::Power(PowerTarget::Off, None)),
        PowerState::Error => None,
    }
}

/// Does the work in the background, if the node is still in the state in which
/// it was seen; nothing, when something of the kind is under way.
pub(crate) fn begin(svc: &Arc<Service>, node: &Node, work: Work) {
    let Some(begun) = takeover::begin(svc, node.uuid) else {
        return;
    };
    let (svc, node) = (Arc::clone(svc), node.clone());
    svc.clone().spawn(async move {
        take_up(&svc, &node, work).await;
        drop(begun);
    });
}

async fn take_up(svc: &Arc<Service>, node: &Node, work: Work) {
    let Some(permit) = svc.workers.for_going_on().await else {
        return;
    };
    match Task::take(svc, node.uuid, svc.config.pace.lock_wait).await {
        // A request may have come in between.
        Ok(task) if task.node.provision_state == node.provision_state => {
            flows::run(task, work).await;
        }
        Ok(task) => task.release().await,
        Err(error) => tracing::warn!(node = %node.uuid, err = %chain(&error), "not gone on with"),
    }
    drop(permit);
    svc.watch(node.uuid);
}
