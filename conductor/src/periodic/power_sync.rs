//! Compares the power state of every machine at rest with its record.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use jiff::Timestamp;
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
use crate::periodic;
use crate::periodic::pages::Pages;
use crate::power;
use crate::service::Service;
use crate::task::Task;
use crate::task::store;

/// Fault of a node whose BMC does not answer, or whose power cannot be kept.
pub(super) const POWER_FAILURE: &str = "power failure";
/// Key of a node whose firmware is being updated: its power is not ours then.
const FIRMWARE_UPDATE: &str = "redfish_fw_updates";

/// Failures in a row by node.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<HashMap<Uuid, u32>>);

impl Faults {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn clear(&self, node: Uuid) {
        self.lock().remove(&node);
    }

    fn of(&self, node: Uuid) -> u32 {
        self.lock().get(&node).copied().unwrap_or(0)
    }

    fn add(&self, node: Uuid) -> u32 {
        let mut map = self.lock();
        let count = map.entry(node).or_insert(0);
        *count += 1;
        *count
    }
}

/// One round over all nodes.
pub(crate) async fn run(svc: &Arc<Service>) -> Result<u64, Error> {
    let query = NodeQuery {
        provision_state: compared().collect(),
        include_children: true,
        maintenance: Some(false),
        ..NodeQuery::default()
    };
    let config = &svc.config.conductor;
    let workers = config
        .sync_power_state_workers
        .min(config.periodic_max_workers);
    let mut pages = Pages::of(svc, query);
    let mut seen = 0;
    while let Some(nodes) = pages.try_next().await.map_err(store("list nodes"))? {
        let due = |node: &Node| periodic::is_free(svc, node) && is_due(node);
        let mut nodes: Vec<Node> = nodes.into_iter().filter(due).collect();
        // Those in trouble first.
        nodes.sort_by_key(|node| std::cmp::Reverse(svc.power_faults.of(node.uuid)));
        seen += periodic::count(nodes.len());
        periodic::each(workers, nodes, async |node: Node| {
            if let Err(error) = one(svc, &node).await {
                tracing::warn!(node = %node.uuid, err = %chain(&error), "power state not compared");
            }
        })
        .await;
    }
    Ok(seen)
}

/// Writes when the power of which machines was compared, all of them at once:
/// the sign of life of the nodes at rest.
pub(crate) async fn mark(svc: &Service) -> Result<u64, Error> {
    let marks = svc.power_syncs.take();
    let count = periodic::count(marks.len());
    let written = svc.store.stamp_power_syncs(marks).await;
    written.map_err(store("note when power was compared"))?;
    Ok(count)
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
    is_compared(node.provision_state)
        && !node.maintenance
        && node.target_power_state.is_none()
        && !node.driver_internal_info.contains_key(FIRMWARE_UPDATE)
}

async fn one(svc: &Arc<Service>, node: &Node) -> Result<(), Error> {
    match drivers::power(node)?.state(svc, node).await {
        Ok(PowerState::Error) => Ok(()),
        Ok(found) => {
            svc.power_syncs.note(node.uuid, Timestamp::now());
            if node.power_state == Some(found) {
                svc.power_faults.clear(node.uuid);
                return Ok(());
            }
            differs(svc, node.uuid, found).await
        }
        Err(error) => {
            if !is_too_often(svc, node.uuid) {
                return Err(error);
            }
            give_up(svc, node.uuid, &chain(&error)).await
        }
    }
}

/// Counts a failure; tells whether it was one too many.
fn is_too_often(svc: &Service, node: Uuid) -> bool {
    svc.power_faults.add(node) > svc.config.conductor.power_state_sync_max_retries
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
    if !is_due(&task.node) {
        return Ok(());
    }
    let node = task.node.uuid;
    let config = &task.svc.config.conductor;
    let force = config.force_power_state_during_sync && !task.node.disable_power_off;
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
    if is_too_often(&task.svc, node) {
        // It does not stay where it is put.
        task.node.power_state = Some(found);
        let why = format!("found {found} again and again where {wanted} is recorded");
        return maintenance(task, &why).await;
    }
    let target = if wanted == PowerState::On {
        PowerTarget::On
    } else {
        PowerTarget::Off
    };
    // Not forgiven when it works: the next round tells whether it lasts.
    power::set(task, target, None).await
}

async fn give_up(svc: &Arc<Service>, node: Uuid, why: &str) -> Result<(), Error> {
    let mut task = Task::take(svc, node, Duration::ZERO).await?;
    let outcome = match is_compared(task.node.provision_state) {
        true => maintenance(&mut task, why).await,
        false => Ok(()),
    };
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
    task.svc.power_faults.clear(task.node.uuid);
    task.save().await
}
