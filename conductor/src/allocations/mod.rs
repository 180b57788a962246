//! Allocations: a request for any node that fits, answered at once and met in
//! the background (`search`), or made for what a node has already (`backfill`).

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;
use wrought_store::Allocation;
use wrought_store::AllocationQuery;
use wrought_store::Conductor;
use wrought_store::node::Node;
use wrought_store::row::PageQuery;
use wrought_wire::state::AllocationState;
use wrought_wire::state::ProvisionState;

use crate::error::Error;
use crate::nodes::taken;
use crate::nodes::unwrap_taken;
use crate::service::Service;
use crate::task::Task;
use crate::task::store;

mod search;

pub(crate) use search::Searches;

/// Allocations read at once.
const PAGE: u32 = 200;

/// Stores a new allocation and begins to look for its node. One that comes
/// with a node is made for what that has already.
pub(crate) async fn create(
    svc: &Arc<Service>,
    mut allocation: Allocation,
) -> Result<Allocation, Error> {
    allocation.state = AllocationState::Allocating;
    allocation.conductor = Some(svc.config.host.clone());
    if let Some(node) = allocation.node_uuid.take() {
        return backfill(svc, allocation, node).await;
    }
    svc.store.insert(&allocation).await.map_err(taken)?;
    search::begin(svc, allocation.uuid);
    Ok(allocation)
}

/// Makes an allocation for a node that is in use already.
async fn backfill(
    svc: &Arc<Service>,
    mut allocation: Allocation,
    node: Uuid,
) -> Result<Allocation, Error> {
    let mut task = match Task::take_any(svc, node, svc.config.pace.lock_wait).await {
        Err(error @ Error::NodeNotFound(_)) => return Err(Error::Invalid(error.to_string())),
        taken => taken?,
    };
    if allocation.resource_class.is_none() {
        allocation
            .resource_class
            .clone_from(&task.node.resource_class);
    }
    let outcome = make_for(&mut task, &allocation).await;
    task.release().await;
    outcome?;
    read(svc, allocation.uuid).await
}

async fn make_for(task: &mut Task, allocation: &Allocation) -> Result<(), Error> {
    let svc = Arc::clone(&task.svc);
    let node = &mut task.node;
    if let Some(instance) = node.instance_uuid.filter(|uuid| *uuid != allocation.uuid) {
        return Err(Error::Conflict(format!(
            "Node {} is associated with instance {instance}, so that an allocation for it must \
             have that UUID, not {}.",
            node.uuid, allocation.uuid
        )));
    }
    if !is_for(allocation, node) {
        return Err(Error::Forbidden(format!(
            "The owner of an allocation must own or lease its node, which is not so for node {}.",
            node.uuid
        )));
    }
    svc.store.insert(allocation).await.map_err(taken)?;
    let problem = match node.provision_state {
        ProvisionState::Active => fits(allocation, node).err(),
        state => Some(format!("it is in state \"{state}\", not in use")),
    };
    if let Some(problem) = problem {
        let text = format!(
            "Failed to process allocation {}: node {} cannot be used, {problem}.",
            allocation.uuid, node.uuid
        );
        let told = svc.store.fail_allocation(allocation.uuid, &text).await;
        told.map_err(store("store an allocation"))?;
        return Err(Error::Invalid(text));
    }
    give(task, allocation).await.map(|_| ())
}

/// Gives the task's node to the allocation. False when that does not wait for
/// one any more.
async fn give(task: &mut Task, allocation: &Allocation) -> Result<bool, Error> {
    let node = &mut task.node;
    node.instance_uuid = Some(allocation.uuid);
    node.allocation_uuid = Some(allocation.uuid);
    let traits = serde_json::json!(allocation.traits);
    node.instance_info.insert("traits".to_owned(), traits);
    let text = format!("Given to allocation {}", allocation.uuid);
    task.history("INFO", "allocation", &text);
    task.allocate(allocation.uuid).await.map_err(unwrap_taken)
}

/// Whether an allocation with an owner is for somebody who may have the node.
fn is_for(allocation: &Allocation, node: &Node) -> bool {
    allocation.owner.as_ref().is_none_or(|owner| {
        node.owner.as_ref() == Some(owner) || node.lessee.as_ref() == Some(owner)
    })
}

/// Whether a node has what an allocation wants, apart from its state; else what
/// it lacks.
fn fits(allocation: &Allocation, node: &Node) -> Result<(), String> {
    if let Some(other) = node.allocation_uuid {
        return Err(format!("it has allocation {other} already"));
    }
    let class = node.resource_class.as_deref();
    if allocation.resource_class.as_deref() != class {
        return Err(format!(
            "its resource class is {}",
            class.unwrap_or("not set")
        ));
    }
    let lacks = |wanted: &&String| !node.traits.contains(wanted);
    let missing: Vec<&str> = allocation
        .traits
        .iter()
        .filter(lacks)
        .map(String::as_str)
        .collect();
    if !missing.is_empty() {
        return Err(format!("it lacks the traits {}", missing.join(", ")));
    }
    let candidates = &allocation.candidate_nodes;
    if !candidates.is_empty() && !candidates.contains(&node.uuid) {
        return Err("it is not one of the candidate nodes".to_owned());
    }
    if !is_for(allocation, node) {
        return Err("it belongs to another project".to_owned());
    }
    Ok(())
}

/// Deletes an allocation; its node is free again.
pub(crate) async fn destroy(svc: &Arc<Service>, uuid: Uuid) -> Result<(), Error> {
    loop {
        let Some(node) = read(svc, uuid).await?.node_uuid else {
            let removed = svc.store.remove_waiting_allocation(uuid).await;
            if removed.map_err(store("delete an allocation"))? {
                return Ok(());
            }
            // It was given a node this very moment, or is gone.
            continue;
        };
        let mut task = match Task::take_any(svc, node, svc.config.pace.lock_wait).await {
            // With the node goes its allocation.
            Err(Error::NodeNotFound(_)) => continue,
            taken => taken?,
        };
        if task.node.allocation_uuid != Some(uuid) {
            task.release().await;
            continue;
        }
        let outcome = match may_free(&task.node, uuid) {
            Ok(()) => {
                task.node.allocation_uuid = None;
                task.node.instance_uuid = None;
                task.save().await
            }
            Err(error) => Err(error),
        };
        task.release().await;
        return outcome;
    }
}

/// Whether a node may lose its allocation now.
pub(crate) fn may_free(node: &Node, allocation: Uuid) -> Result<(), Error> {
    let state = node.provision_state;
    let moving = node.target_provision_state.is_some() && !state.allows_update();
    let used = matches!(state, ProvisionState::Active | ProvisionState::Rescue);
    if node.maintenance || !(moving || used) {
        return Ok(());
    }
    Err(Error::Conflict(format!(
        "Cannot remove allocation {allocation} of node {}: the node is in state \"{state}\", in \
         which it must keep its instance unless it is in maintenance.",
        node.uuid
    )))
}

/// Goes on with allocations that wait for a node and that nobody looks after.
/// Tells how many wait.
pub(crate) async fn take_up(svc: &Arc<Service>) -> Result<u64, Error> {
    let conductors = svc.store.conductors().await;
    let conductors = conductors.map_err(store("list conductors"))?;
    let dead_after = Duration::from_secs(svc.config.conductor.dead_after);
    let is_others = |host: &str| {
        let lives = |other: &Conductor| other.hostname == host && other.is_alive(dead_after);
        host != svc.config.host && conductors.iter().any(lives)
    };
    let query = AllocationQuery {
        state: Some(AllocationState::Allocating.as_str().to_owned()),
        ..AllocationQuery::default()
    };
    let mut page = PageQuery {
        limit: Some(PAGE),
        ..PageQuery::default()
    };
    let mut seen = 0;
    loop {
        let waiting = svc.store.rows(&query, &page).await;
        let waiting = waiting.map_err(store("list allocations"))?;
        for allocation in &waiting {
            if allocation.conductor.as_deref().is_some_and(is_others) {
                continue;
            }
            let claimed = svc
                .store
                .claim_allocation(allocation, &svc.config.host)
                .await;
            if claimed.map_err(store("claim an allocation"))? {
                search::begin(svc, allocation.uuid);
            }
        }
        page.marker = waiting.last().map(|last| last.uuid);
        seen += u64::try_from(waiting.len()).unwrap_or(u64::MAX);
        if waiting.len() < PAGE as usize {
            return Ok(seen);
        }
    }
}

async fn read(svc: &Service, uuid: Uuid) -> Result<Allocation, Error> {
    let read = svc.store.row(uuid).await;
    read.map_err(store("read an allocation"))?
        .ok_or_else(|| Error::NotFound(format!("Allocation {uuid} could not be found.")))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use uuid::Uuid;
    use wrought_store::Allocation;
    use wrought_wire::state::ProvisionState;

    use super::fits;
    use super::may_free;
    use crate::testing::node;

    fn allocation() -> Allocation {
        let blank = json!({"uuid": Uuid::new_v4(), "state": "allocating", "traits": ["CUSTOM_A"],
            "candidate_nodes": [], "extra": {}, "resource_class": "x",
            "created_at": Timestamp::now()});
        serde_json::from_value(blank).unwrap()
    }

    #[test]
    fn what_fits() {
        let mut wanted = allocation();
        let mut node = node("fake-hardware");
        assert_eq!(
            fits(&wanted, &node).unwrap_err(),
            "its resource class is not set"
        );
        node.resource_class = Some("x".to_owned());
        assert_eq!(
            fits(&wanted, &node).unwrap_err(),
            "it lacks the traits CUSTOM_A"
        );
        node.traits = vec!["CUSTOM_A".to_owned(), "CUSTOM_B".to_owned()];
        fits(&wanted, &node).unwrap();
        wanted.candidate_nodes = vec![Uuid::nil()];
        assert!(fits(&wanted, &node).unwrap_err().contains("candidate"));
        wanted.candidate_nodes.push(node.uuid);
        wanted.owner = Some("p".to_owned());
        assert!(fits(&wanted, &node).unwrap_err().contains("project"));
        node.lessee = Some("p".to_owned());
        fits(&wanted, &node).unwrap();
        node.allocation_uuid = Some(Uuid::nil());
        assert!(fits(&wanted, &node).unwrap_err().contains("already"));
    }

    #[test]
    fn used_and_moving_nodes_keep_it() {
        let mut node = node("fake-hardware");
        for (state, target, free) in [
            (ProvisionState::Available, None, true),
            (ProvisionState::Active, None, false),
            (
                ProvisionState::Deploying,
                Some(ProvisionState::Active),
                false,
            ),
            (
                ProvisionState::DeployFail,
                Some(ProvisionState::Active),
                true,
            ),
        ] {
            node.provision_state = state;
            node.target_provision_state = target;
            node.maintenance = false;
            assert_eq!(may_free(&node, Uuid::nil()).is_ok(), free, "{state}");
            node.maintenance = true;
            may_free(&node, Uuid::nil()).unwrap();
        }
    }
}
