//! Compares the power state of every machine at rest with its record.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use uuid::Uuid;
use wrought_store::NodeQuery;
use wrought_store::node::Node;
use wrought_wire::state::PowerState;
use wrought_wire::state::PowerTarget;
use wrought_wire::state::ProvisionState;

use crate::drivers;
use crate::error::Error;
use crate::error::chain;
use crate::machine;
use crate::periodic::pages::Pages;
use crate::power;
use crate::service::Service;
use crate::task::Task;

/// BMCs asked at the same time.
const AT_ONCE: usize = 8;
/// Failures in a row that put a node into maintenance.
const TOLERATED: u32 = 3;
/// Fault of a node whose BMC does not answer, or whose power cannot be kept.
const POWER_FAILURE: &str = "power failure";

/// Failures in a row by node.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<HashMap<Uuid, u32>>);

impl Faults {
    fn clear(&self, node: Uuid) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&node);
    }

    fn add(&self, node: Uuid) -> u32 {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = map.entry(node).or_insert(0);
        *count += 1;
        *count
    }
}

/// One round over all nodes.
pub(crate) async fn run(svc: &Arc<Service>) {
    let query = NodeQuery {
        provision_state: compared().collect(),
        include_children: true,
        ..NodeQuery::default()
    };
    let mut pages = Pages::of(svc, query);
    while let Some(nodes) = pages.next("power states not compared").await {
        let due = |node: &Node| svc.owns(node) && is_due(node);
        stream::iter(nodes.into_iter().filter(due))
            .for_each_concurrent(AT_ONCE, async |node| {
                if let Err(error) = one(svc, &node).await {
                    tracing::warn!(node = %node.uuid, err = %chain(&error), "power state not compared");
                }
            })
            .await;
    }
}

/// States in which nobody else is at the machine's power.
fn compared() -> impl Iterator<Item = ProvisionState> {
    ProvisionState::ALL
        .iter()
        .copied()
        .filter(|state| is_compared(*state))
}

fn is_compared(state: ProvisionState) -> bool {
    !machine::is_working(state)
        && !machine::is_waiting(state)
        && !matches!(state, ProvisionState::Enroll | ProvisionState::AdoptFail)
}

fn is_due(node: &Node) -> bool {
    let in_hand = node.maintenance && node.fault.as_deref() != Some(POWER_FAILURE);
    is_compared(node.provision_state)
        && !in_hand
        && node.reservation.is_none()
        && node.target_power_state.is_none()
}

async fn one(svc: &Arc<Service>, node: &Node) -> Result<(), Error> {
    match drivers::power(node)?.state(svc, node).await {
        Ok(PowerState::Error) => Ok(()),
        Ok(found) => {
            let failed = node.fault.as_deref() == Some(POWER_FAILURE);
            if node.power_state == Some(found) && !failed {
                svc.power_faults.clear(node.uuid);
                return Ok(());
            }
            differs(svc, node.uuid, found).await
        }
        Err(error) => {
            if node.maintenance || svc.power_faults.add(node.uuid) <= TOLERATED {
                return Err(error);
            }
            give_up(svc, node.uuid, &chain(&error)).await
        }
    }
}

/// The machine and its record differ: looks again under the lock.
async fn differs(svc: &Arc<Service>, node: Uuid, found: PowerState) -> Result<(), Error> {
    let mut task = match Task::take(svc, node, Duration::ZERO).await {
        Ok(task) => task,
        Err(Error::Locked { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    let outcome = task.fence().guard(put_right(&mut task, found)).await;
    task.release().await;
    outcome
}

async fn put_right(task: &mut Task, found: PowerState) -> Result<(), Error> {
    if !is_due(&Node {
        reservation: None,
        ..task.node.clone()
    }) {
        return Ok(());
    }
    let node = task.node.uuid;
    if task.node.fault.as_deref() == Some(POWER_FAILURE) {
        task.node.maintenance = false;
        task.node.maintenance_reason = None;
        task.node.fault = None;
        task.node.power_state = Some(found);
        task.svc.power_faults.clear(node);
        return task.save().await;
    }
    let force = task.svc.config.conductor.force_power_state_during_sync;
    let (Some(wanted), true) = (task.node.power_state, force) else {
        task.node.power_state = Some(found);
        return task.save().await;
    };
    if wanted == PowerState::Error || wanted == found {
        task.node.power_state = Some(found);
        return task.save().await;
    }
    tracing::warn!(node = %node, wanted = wanted.as_str(), found = found.as_str(),
        "machine found in another power state");
    let target = if wanted == PowerState::On {
        PowerTarget::On
    } else {
        PowerTarget::Off
    };
    match power::set(task, target, None).await {
        Ok(()) => {
            task.svc.power_faults.clear(node);
            Ok(())
        }
        Err(error) if error.is_lease_lost() => Err(error),
        Err(error) if task.svc.power_faults.add(node) <= TOLERATED => Err(error),
        Err(error) => maintenance(task, &chain(&error)).await,
    }
}

async fn give_up(svc: &Arc<Service>, node: Uuid, why: &str) -> Result<(), Error> {
    let mut task = Task::take(svc, node, Duration::ZERO).await?;
    let outcome = maintenance(&mut task, why).await;
    task.release().await;
    outcome
}

async fn maintenance(task: &mut Task, why: &str) -> Result<(), Error> {
    let text = format!(
        "During sync_power_state, max retries exceeded for node {}: {why}. Switching maintenance \
         mode on.",
        task.node.uuid
    );
    task.set_error("power", &text);
    task.node.maintenance = true;
    task.node.maintenance_reason = Some(text);
    task.node.fault = Some(POWER_FAILURE.to_owned());
    task.save().await
}
