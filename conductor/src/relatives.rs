//! Power of machines that hang on each other: a child (a DPU, a blade) gets
//! its power through its parent, unless it has a supply of its own
//! (`driver_info.has_dedicated_power_supply`).

use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;
use wrought_store::NodeQuery;
use wrought_store::node::Node;
use wrought_wire::state::PowerState;
use wrought_wire::state::PowerTarget;

use crate::error::Error;
use crate::power;
use crate::service::Service;
use crate::task::Task;
use crate::task::store;

/// Refuses a power action that the node's relatives forbid now.
pub(crate) async fn check(svc: &Service, node: &Node, target: PowerTarget) -> Result<(), Error> {
    match target {
        PowerTarget::Off | PowerTarget::SoftOff => children_are_off(svc, node).await,
        PowerTarget::On | PowerTarget::Reboot | PowerTarget::SoftReboot => {
            match parent_to_switch_on(svc, node).await? {
                Some(Node {
                    uuid,
                    reservation: Some(host),
                    ..
                }) => Err(parent_locked(node, uuid, &host)),
                _ => Ok(()),
            }
        }
    }
}

/// The same, just before the action; a parent that is off is switched on.
/// Boxed, because that goes the way that led here.
pub(crate) fn allow(
    task: &Task,
    target: PowerTarget,
) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + '_>> {
    Box::pin(async move {
        let svc = Arc::clone(&task.svc);
        if matches!(target, PowerTarget::Off | PowerTarget::SoftOff) {
            return children_are_off(&svc, &task.node).await;
        }
        let Some(parent) = parent_to_switch_on(&svc, &task.node).await? else {
            return Ok(());
        };
        // Also another conductor's: what counts is the lock.
        let taken = Task::take_any(&svc, parent.uuid, svc.config.pace.lock_wait).await;
        let mut parent = match taken {
            Ok(parent) => parent,
            Err(Error::Locked { node: uuid, host }) => {
                return Err(parent_locked(&task.node, uuid, &host));
            }
            Err(error) => return Err(error),
        };
        tracing::info!(node = %task.node.uuid, parent = %parent.node.uuid, "parent switched on");
        let text = format!("Switched on for child node {}", task.node.uuid);
        parent.history("INFO", "power", &text);
        let switched = power::set(&mut parent, PowerTarget::On, None).await;
        parent.release().await;
        match switched {
            // It is not our own lease.
            Err(Error::LeaseLost(uuid)) => Err(parent_locked(&task.node, uuid, "another")),
            switched => switched,
        }
    })
}

fn has_own_supply(node: &Node) -> bool {
    match node.driver_info.get("has_dedicated_power_supply") {
        Some(Value::Bool(yes)) => *yes,
        Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
        _ => false,
    }
}

/// The node's parent, when the node gets its power through it and it is not on.
async fn parent_to_switch_on(svc: &Service, node: &Node) -> Result<Option<Node>, Error> {
    let parent = node.parent_node.as_deref();
    let parent = parent.and_then(|parent| parent.parse::<Uuid>().ok());
    let Some(parent) = parent.filter(|_| !has_own_supply(node)) else {
        return Ok(None);
    };
    let parent = svc.store.node_by_uuid(parent).await;
    let parent = parent.map_err(store("read a parent node"))?;
    Ok(parent.filter(|parent| parent.power_state != Some(PowerState::On)))
}

/// A parent that goes off takes its children with it.
async fn children_are_off(svc: &Service, node: &Node) -> Result<(), Error> {
    if node.power_state == Some(PowerState::Off) {
        return Ok(());
    }
    let query = NodeQuery {
        parent_node: Some(node.uuid.to_string()),
        ..NodeQuery::default()
    };
    let children = svc.store.list_nodes(&query).await;
    let children = children.map_err(store("list child nodes"))?;
    for child in children.iter().filter(|child| !has_own_supply(child)) {
        if let Some(host) = &child.reservation {
            return Err(Error::Conflict(format!(
                "Node {}: child node {} is locked by host {host}, please retry after the current \
                 operation is completed.",
                node.uuid, child.uuid
            )));
        }
        if child.power_state == Some(PowerState::On) {
            return Err(Error::Conflict(format!(
                "Node {} cannot be powered off while its child node {} is powered on: power off \
                 the child first, or set has_dedicated_power_supply in its driver_info.",
                node.uuid, child.uuid
            )));
        }
    }
    Ok(())
}

fn parent_locked(node: &Node, parent: Uuid, host: &str) -> Error {
    Error::Conflict(format!(
        "Node {}: parent node {parent} is locked by host {host}, please retry after the current \
         operation is completed.",
        node.uuid
    ))
}
