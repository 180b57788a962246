//! Fast track: a ramdisk that runs already is used as it is, without a restart
//! of the machine. It stays up after an inspection and after cleaning, calls
//! in while its node rests, and gets the node's present record with each
//! command.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;
use wrought_store::node::Node;
use wrought_wire::state::PowerState;
use wrought_wire::state::ProvisionState;

use crate::drivers;
use crate::error::Error;
use crate::internal;
use crate::service::Service;
use crate::stamps;
use crate::task::Task;
use crate::task::store;

/// `driver_info` key of a node that goes before the configuration.
const KEY: &str = "fast_track";

/// Whether the node's ramdisk is to be used for more than one operation.
pub(crate) fn is_enabled(svc: &Service, node: &Node) -> bool {
    match node.driver_info.get(KEY) {
        Some(Value::Bool(own)) => *own,
        Some(Value::Number(own)) => own.as_u64() == Some(1),
        Some(Value::String(own)) => {
            let own = own.trim().to_ascii_lowercase();
            matches!(own.as_str(), "true" | "yes" | "on" | "t" | "y" | "1")
        }
        _ => svc.config.conductor.fast_track,
    }
}

/// Whether heartbeats are noted in a state of rest: the node's ramdisk may be
/// waiting there for what comes next.
pub(crate) async fn listens(
    svc: &Service,
    node: Uuid,
    state: ProvisionState,
) -> Result<bool, Error> {
    if !rests(state) {
        return Ok(false);
    }
    let read = svc.store.node_by_uuid(node).await;
    let read = read.map_err(store("read a node"))?;
    Ok(read.is_some_and(|node| is_enabled(svc, &node)))
}

/// Whether the node's ramdisk may look itself up in a state where no other may.
pub(crate) fn allows_lookup(svc: &Service, node: &Node) -> bool {
    let state = node.provision_state;
    // Where the node rests only its own ramdisk has a reason to ask, and that
    // has its token; nobody gets one that could be kept for later.
    let known = !rests(state) || internal::text(node, internal::AGENT_TOKEN).is_some();
    state.allows_lookup_fast_track() && is_enabled(svc, node) && known
}

const fn rests(state: ProvisionState) -> bool {
    use ProvisionState as S;
    matches!(state, S::Enroll | S::Manageable | S::Available)
}

/// At the beginning of an operation: keeps the running ramdisk where it will
/// be used, and forgets it otherwise. Before `last_error` is cleared: after a
/// failure there is always a fresh one.
pub(crate) async fn keep_or_forget(task: &mut Task) -> Result<(), Error> {
    let on = task.node.power_state == Some(PowerState::On);
    let good = on && task.node.last_error.is_none() && seems_alive(task).await?;
    if !good {
        internal::forget_agent(&mut task.node);
    }
    Ok(())
}

/// Whether the ramdisk runs now and can be given work.
pub(crate) async fn is_up(task: &Task) -> Result<bool, Error> {
    if !seems_alive(task).await? {
        return Ok(false);
    }
    let power = drivers::power(&task.node)?;
    Ok(power.state(&task.svc, &task.node).await? == PowerState::On)
}

/// Whether it called, or sent what it had found, within `fast_track_timeout`.
async fn seems_alive(task: &Task) -> Result<bool, Error> {
    let (svc, node) = (&task.svc, &task.node);
    if !is_enabled(svc, node) || internal::text(node, internal::AGENT_TOKEN).is_none() {
        return Ok(false);
    }
    let limit = Duration::from_secs(svc.config.conductor.fast_track_timeout);
    let recent = |at: Timestamp| {
        let since = Timestamp::now().duration_since(at);
        Duration::try_from(since).unwrap_or_default() <= limit
    };
    if !task.node_has_agent() {
        // After an inspection its first heartbeat may be on its way.
        return Ok(node.inspection_finished_at.is_some_and(recent));
    }
    let last = stamps::last_call(svc, node).await?;
    Ok(last.is_some_and(recent))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::tests::rig::Rig;

    #[tokio::test]
    async fn the_node_goes_before_the_configuration() {
        let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
        let mut node = rig.node().await;
        assert!(!super::is_enabled(&rig.service, &node));
        for (own, on) in [
            (json!(true), true),
            (json!("True"), true),
            (json!("no"), false),
            (json!(1), true),
            (json!(false), false),
            (json!(null), false),
        ] {
            node.driver_info.insert("fast_track".to_owned(), own);
            assert_eq!(super::is_enabled(&rig.service, &node), on);
        }
    }
}
