//! Wait states end after a time of silence; failed nodes keep no artefacts; a
//! node at work that nobody has locked is gone on with.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use wrought_store::NodeQuery;
use wrought_store::node::Node;
use wrought_wire::state::ProvisionState;

use crate::error::chain;
use crate::flows;
use crate::flows::Work;
use crate::flows::failure;
use crate::machine;
use crate::service::Service;
use crate::steps::Kind;
use crate::task::Task;

/// Looks at every node that waits or has failed.
pub(crate) async fn check(svc: &Arc<Service>) {
    let states = ProvisionState::ALL.iter().copied();
    let states = states.filter(|state| {
        machine::is_waiting(*state) || machine::is_working(*state) || state.is_failure()
    });
    let query = NodeQuery {
        provision_state: states.collect(),
        include_children: true,
        ..NodeQuery::default()
    };
    let nodes = match svc.store.list_nodes(&query).await {
        Ok(nodes) => nodes,
        Err(error) => {
            tracing::warn!(err = %chain(&error), "time-outs not checked");
            return;
        }
    };
    for node in nodes.iter().filter(|node| node.reservation.is_none()) {
        if failure::has_leftovers(node) {
            work(svc, node, Work::PutAway).await;
            continue;
        }
        if machine::is_working(node.provision_state) {
            // Its conductor died, or its database failed it half-way.
            work(svc, node, Work::Restart).await;
            continue;
        }
        let Some(kind) = Kind::of(node.provision_state) else {
            continue;
        };
        // A loop may have ended with an error of the database.
        svc.watch(node.uuid);
        if !node.maintenance && is_overdue(svc, node, kind).await {
            work(svc, node, Work::TimedOut(kind)).await;
        }
    }
}

async fn is_overdue(svc: &Service, node: &Node, kind: Kind) -> bool {
    let config = &svc.config.conductor;
    let limit = match kind {
        Kind::Deploy => config.deploy_callback_timeout,
        Kind::Clean => config.clean_callback_timeout,
    };
    if limit == 0 {
        return false;
    }
    let called = svc.store.last_heartbeat(node.uuid).await.ok().flatten();
    let Some(last) = node.provision_updated_at.max(called) else {
        return false;
    };
    let silence = Timestamp::now().duration_since(last);
    Duration::try_from(silence).is_ok_and(|silence| silence > Duration::from_secs(limit))
}

async fn work(svc: &Arc<Service>, node: &Node, work: Work) {
    // Next time is soon enough when everybody is busy or the node is locked.
    let Ok(permit) = svc.permit() else { return };
    match Task::take(svc, node.uuid, Duration::ZERO).await {
        Ok(task) if task.node.provision_state == node.provision_state => {
            flows::spawn(svc, task, work, permit);
        }
        Ok(task) => task.release().await,
        Err(error) => {
            tracing::debug!(node = %node.uuid, err = %chain(&error), "left for the next time");
        }
    }
}
