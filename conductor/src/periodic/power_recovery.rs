//! Takes nodes whose BMC answers again out of the maintenance that the power
//! synchronisation had put them into.

use std::sync::Arc;
use std::time::Duration;

use wrought_store::NodeQuery;
use wrought_store::node::Node;
use wrought_wire::state::PowerState;

use super::power_sync::POWER_FAILURE;
use crate::drivers;
use crate::error::Error;
use crate::error::chain;
use crate::periodic;
use crate::periodic::pages::Pages;
use crate::service::Service;
use crate::task::Task;
use crate::task::store;

/// One round over the nodes with that fault.
pub(super) async fn run(svc: &Arc<Service>) -> Result<u64, Error> {
    let query = NodeQuery {
        fault: Some(POWER_FAILURE.to_owned()),
        maintenance: Some(true),
        include_children: true,
        ..NodeQuery::default()
    };
    let workers = svc.config.conductor.periodic_max_workers;
    let mut pages = Pages::of(svc, query);
    let mut seen = 0;
    while let Some(nodes) = pages.try_next().await.map_err(store("list nodes"))? {
        seen += periodic::count(nodes.len());
        let free = nodes
            .into_iter()
            .filter(|node| periodic::is_free(svc, node));
        periodic::each(workers, free, async |node: Node| {
            if let Err(error) = one(svc, &node).await {
                tracing::info!(node = %node.uuid, err = %chain(&error), "no recovery yet");
            }
        })
        .await;
    }
    Ok(seen)
}

async fn one(svc: &Arc<Service>, node: &Node) -> Result<(), Error> {
    let found = drivers::power(node)?.state(svc, node).await?;
    if found == PowerState::Error {
        return Ok(());
    }
    let mut task = match Task::take(svc, node.uuid, Duration::ZERO).await {
        Ok(task) => task,
        Err(Error::Locked { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    let outcome = task.fence().guard(recovered(&mut task, found)).await;
    task.release().await;
    outcome
}

async fn recovered(task: &mut Task, found: PowerState) -> Result<(), Error> {
    if task.node.fault.as_deref() != Some(POWER_FAILURE) {
        // An operator was faster.
        return Ok(());
    }
    task.node.maintenance = false;
    task.node.maintenance_reason = None;
    task.node.fault = None;
    task.node.power_state = Some(found);
    task.svc.power_faults.clear(task.node.uuid);
    task.history("INFO", "power", "The BMC answers again; maintenance is off");
    task.save().await
}
