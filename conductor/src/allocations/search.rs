//! Looking for a node: the free ones that fit are tried in random order, each
//! locked without waiting and checked again under its lock.
//!
//! The searches of one conductor take turns, so that they never compete with
//! each other for a lock, only with other work on a node.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use uuid::Uuid;
use wrought_store::Allocation;
use wrought_store::allocation::Candidate;
use wrought_store::node::Node;
use wrought_wire::state::AllocationState;
use wrought_wire::state::ProvisionState;

use super::fits;
use super::give;
use crate::error::Error;
use crate::error::chain;
use crate::service::Service;
use crate::task::Task;
use crate::task::store;

/// How often all free nodes are tried while others hold their locks.
const TRIES: u32 = 3;
/// Between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// The searches of a conductor.
#[derive(Debug, Default)]
pub(crate) struct Searches {
    /// Whose turn it is.
    turn: tokio::sync::Mutex<()>,
    /// Allocations that are looked after.
    running: Mutex<HashSet<Uuid>>,
}

impl Searches {
    fn running(&self) -> std::sync::MutexGuard<'_, HashSet<Uuid>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How one try ended.
enum Tried {
    /// The allocation has a node, or needs none any more.
    Done,
    /// That many nodes fit, but others were at work on all of them.
    Busy(usize),
    /// No node fits: the reason.
    None(String),
}

/// Looks for a node in the background, unless somebody does already.
pub(super) fn begin(svc: &Arc<Service>, allocation: Uuid) {
    if !svc.searches.running().insert(allocation) {
        return;
    }
    let owner = Arc::clone(svc);
    svc.spawn(async move {
        if let Err(error) = search(&owner, allocation).await {
            // The record says that it waits: it is taken up again.
            tracing::error!(%allocation, err = %chain(&error), "search for a node ended early");
        }
        owner.searches.running().remove(&allocation);
    });
}

async fn search(svc: &Arc<Service>, uuid: Uuid) -> Result<(), Error> {
    let mut reason = String::new();
    for _ in 0..TRIES {
        match attempt(svc, uuid).await? {
            Tried::Done => return Ok(()),
            Tried::None(why) => {
                reason = why;
                break;
            }
            Tried::Busy(count) => {
                reason = format!(
                    "each of the {count} nodes that fit is locked by another operation or was \
                     taken meanwhile"
                );
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    let text = format!("Failed to process allocation {uuid}: {reason}.");
    tracing::warn!(allocation = %uuid, reason, "no node for an allocation");
    let told = svc.store.fail_allocation(uuid, &text).await;
    told.map_err(store("store an allocation"))
}

/// Tries each free node once.
async fn attempt(svc: &Arc<Service>, uuid: Uuid) -> Result<Tried, Error> {
    let _turn = svc.searches.turn.lock().await;
    let read = svc.store.row::<Allocation>(uuid).await;
    let read = read.map_err(store("read an allocation"))?;
    let Some(wanted) = read.filter(|read| read.state == AllocationState::Allocating) else {
        return Ok(Tried::Done);
    };
    let free = svc.store.allocation_candidates(&wanted).await;
    let candidates = match choose(&wanted, free.map_err(store("list nodes"))?) {
        Ok(candidates) => candidates,
        Err(reason) => return Ok(Tried::None(reason)),
    };
    for candidate in &candidates {
        let mut task = match Task::take_any(svc, candidate.uuid, Duration::ZERO).await {
            Ok(task) => task,
            Err(Error::Locked { .. } | Error::NodeNotFound(_)) => continue,
            Err(error) => return Err(error),
        };
        if !is_free(&task.node) || fits(&wanted, &task.node).is_err() {
            task.release().await;
            continue;
        }
        let given = give(&mut task, &wanted).await;
        task.release().await;
        match given {
            Ok(true) => {
                tracing::info!(allocation = %uuid, node = %candidate.uuid, "node allocated")
            }
            Ok(false) => tracing::info!(allocation = %uuid, "allocation withdrawn meanwhile"),
            Err(Error::LeaseLost(_)) => continue,
            // Somebody has used the allocation's UUID for another node.
            Err(Error::Conflict(text)) => return Ok(Tried::None(text)),
            Err(error) => return Err(error),
        }
        return Ok(Tried::Done);
    }
    Ok(Tried::Busy(candidates.len()))
}

/// What a look without the lock has seen, seen again under it.
fn is_free(node: &Node) -> bool {
    node.provision_state == ProvisionState::Available
        && node.instance_uuid.is_none()
        && node.power_state.is_some()
        && !node.maintenance
}

/// The free nodes that have the traits, in the order in which they are tried: a
/// node of the allocation's own name, then all others at random. Else why there
/// is none.
fn choose(wanted: &Allocation, free: Vec<Candidate>) -> Result<Vec<Candidate>, String> {
    let class = wanted.resource_class.as_deref().unwrap_or_default();
    if free.is_empty() {
        let mut text = format!("no available nodes match the resource class {class}");
        if !wanted.candidate_nodes.is_empty() {
            text.push_str(" among the candidate nodes");
        }
        if let Some(owner) = &wanted.owner {
            text.push_str(&format!(" and the owner {owner}"));
        }
        return Err(text);
    }
    let has_all = |node: &Candidate| wanted.traits.iter().all(|name| node.traits.contains(name));
    let count = free.len();
    let mut fit: Vec<Candidate> = free.into_iter().filter(has_all).collect();
    if fit.is_empty() {
        return Err(format!(
            "none of the {count} available nodes of the resource class {class} has all of the \
             traits {}",
            wanted.traits.join(", ")
        ));
    }
    let namesake = |node: &Candidate| wanted.name.is_some() && node.name == wanted.name;
    fit.sort_by_cached_key(|node| (!namesake(node), Uuid::new_v4()));
    Ok(fit)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use uuid::Uuid;
    use wrought_store::Allocation;
    use wrought_store::allocation::Candidate;

    use super::choose;

    fn wanted(traits: &[&str]) -> Allocation {
        let text = json!({"uuid": Uuid::nil(), "name": "web", "state": "allocating",
            "resource_class": "big", "traits": traits, "candidate_nodes": [], "extra": {},
            "created_at": Timestamp::now()});
        serde_json::from_value(text).unwrap()
    }

    fn free(name: &str, traits: &[&str]) -> Candidate {
        Candidate {
            uuid: Uuid::new_v4(),
            name: Some(name.to_owned()),
            traits: traits.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn namesakes_first_and_reasons() {
        let mut nodes: Vec<Candidate> =
            (0..20).map(|n| free(&n.to_string(), &["A", "B"])).collect();
        nodes.push(free("web", &["A"]));
        let order = choose(&wanted(&["A"]), nodes.clone()).unwrap();
        assert_eq!(order.len(), 21);
        assert_eq!(order[0].name.as_deref(), Some("web"));
        assert_eq!(
            choose(&wanted(&["A", "B"]), nodes.clone()).unwrap().len(),
            20
        );
        assert_eq!(
            choose(&wanted(&["A", "C"]), nodes).unwrap_err(),
            "none of the 21 available nodes of the resource class big has all of the traits A, C"
        );
        assert_eq!(
            choose(&wanted(&[]), Vec::new()).unwrap_err(),
            "no available nodes match the resource class big"
        );
    }
}
