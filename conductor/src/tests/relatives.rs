//! Nodes with children: steps that run on them, and power that depends on
//! them.

use std::time::Duration;

use serde_json::json;
use uuid::Uuid;
use wrought_rpc::Conductor;
use wrought_rpc::Kind;
use wrought_store::node::Node;
use wrought_wire::state::PowerState;
use wrought_wire::state::PowerTarget;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;
use crate::config::Config;
use crate::testing;

/// A manageable node that is off, with two children that are off.
async fn family(settings: impl FnOnce(&mut Config)) -> (Rig, [Uuid; 2]) {
    let rig = Rig::with("fake-hardware", settings, |_| {}).await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    let mut children = [Uuid::nil(); 2];
    for (number, uuid) in children.iter_mut().enumerate() {
        let mut child = testing::node("fake-hardware");
        child.name = Some(format!("child-{number}"));
        child.parent_node = Some(rig.node.to_string());
        child.power_state = Some(PowerState::Off);
        *uuid = child.uuid;
        rig.store.create_node(&child).await.unwrap();
    }
    (rig, children)
}

async fn child(rig: &Rig, uuid: Uuid) -> Node {
    rig.store.node_by_uuid(uuid).await.unwrap().unwrap()
}

async fn switch(rig: &Rig, node: Uuid, target: PowerTarget) -> Node {
    rig.service.change_power(node, target, None).await.unwrap();
    rig.until("power", async || {
        let node = child(rig, node).await;
        node.target_power_state.is_none() && node.reservation.is_none()
    })
    .await;
    child(rig, node).await
}

#[tokio::test]
async fn a_step_runs_on_all_children_or_on_those_it_names() {
    let (rig, [first, second]) = family(|_| {}).await;
    switch(&rig, rig.node, PowerTarget::On).await;
    rig.clean(json!([{
        "interface": "power", "step": "power_on", "execute_on_child_nodes": true,
        "limit_child_node_execution": ["child-1"],
    }]))
    .await;
    rig.reaches(S::Manageable).await;
    assert_eq!(child(&rig, first).await.power_state, Some(PowerState::Off));
    assert_eq!(child(&rig, second).await.power_state, Some(PowerState::On));
    rig.clean(json!([
        {"interface": "power", "step": "power_on", "execute_on_child_nodes": true},
        {"interface": "vendor", "step": "log_passthrough", "execute_on_child_nodes": true},
    ]))
    .await;
    let node = rig.reaches(S::Manageable).await;
    assert_eq!(node.last_error, None);
    for uuid in [first, second] {
        let child = child(&rig, uuid).await;
        assert_eq!(child.power_state, Some(PowerState::On));
        assert_eq!(child.reservation, None);
        assert_eq!(child.provision_state, S::Enroll, "its own state stays");
    }
}

#[tokio::test]
async fn what_fails_on_a_child_names_child_and_reason() {
    let (rig, [first, second]) = family(|config| {
        config.pace.lock_wait = Duration::from_millis(100);
    })
    .await;
    let lease = rig
        .store
        .lock_node(second, "other-host", Duration::from_secs(60))
        .await
        .unwrap();
    for (step, says) in [
        (
            json!({"interface": "vendor", "step": "log_passthrough"}),
            format!(
                "on child node {second} of node {} failed: it is locked by host other-host",
                rig.node
            ),
        ),
        (
            json!({"interface": "vendor", "step": "polish"}),
            format!(
                "on child node {first} of node {} failed: its interfaces have no such step",
                rig.node
            ),
        ),
        (
            json!({"interface": "vendor", "step": "wait", "args": {"seconds": 1}}),
            "permit_child_node_step_async_result".to_owned(),
        ),
        (
            json!({
                "interface": "vendor", "step": "log_passthrough",
                "limit_child_node_execution": ["stranger"],
            }),
            "names \"stranger\", which is no child of node".to_owned(),
        ),
    ] {
        let mut step = step;
        step["execute_on_child_nodes"] = json!(true);
        rig.clean(json!([step])).await;
        let node = rig.reaches(S::CleanFail).await;
        let error = node.last_error.unwrap();
        assert!(error.contains(&says), "{error}");
        rig.ask(Verb::Manage).await;
        rig.reaches(S::Manageable).await;
    }
    rig.store.unlock(lease).await.unwrap();
}

#[tokio::test]
async fn a_child_may_go_on_by_itself_where_that_is_permitted() {
    let (rig, _) = family(|config| {
        config.conductor.permit_child_node_step_async_result = true;
    })
    .await;
    rig.clean(json!([{
        "interface": "vendor", "step": "wait", "args": {"seconds": 3000},
        "execute_on_child_nodes": true,
    }]))
    .await;
    rig.reaches(S::Manageable).await;
}

#[tokio::test]
async fn a_parent_goes_off_only_after_its_children() {
    let (rig, [first, _]) = family(|_| {}).await;
    switch(&rig, rig.node, PowerTarget::On).await;
    switch(&rig, first, PowerTarget::On).await;
    let refused = rig
        .service
        .change_power(rig.node, PowerTarget::Off, None)
        .await
        .unwrap_err();
    assert_eq!(refused.kind, Kind::Conflict);
    assert!(
        refused
            .message
            .contains(&format!("its child node {first} is powered on")),
        "{refused}"
    );
    let parent = rig.node().await;
    assert_eq!(
        (parent.power_state, parent.target_power_state),
        (Some(PowerState::On), None)
    );
    switch(&rig, first, PowerTarget::Off).await;
    let parent = switch(&rig, rig.node, PowerTarget::Off).await;
    assert_eq!(parent.power_state, Some(PowerState::Off));
}

#[tokio::test]
async fn a_child_that_is_switched_on_switches_its_parent_on() {
    let (rig, [first, second]) = family(|config| {
        config.pace.lock_wait = Duration::from_millis(100);
    })
    .await;
    let mut own = child(&rig, second).await;
    own.driver_info
        .insert("has_dedicated_power_supply".to_owned(), json!(true));
    rig.service
        .update_node(own, vec!["driver_info".to_owned()], false)
        .await
        .unwrap();
    switch(&rig, second, PowerTarget::On).await;
    assert_ne!(rig.node().await.power_state, Some(PowerState::On));
    // A parent that somebody works on cannot be switched on.
    let lease = rig
        .store
        .lock_node(rig.node, "other-host", Duration::from_secs(60))
        .await
        .unwrap();
    let refused = rig
        .service
        .change_power(first, PowerTarget::On, None)
        .await
        .unwrap_err();
    assert_eq!(refused.kind, Kind::Conflict);
    assert!(
        refused.message.contains("is locked by host other-host"),
        "{refused}"
    );
    rig.store.unlock(lease).await.unwrap();
    let child = switch(&rig, first, PowerTarget::On).await;
    assert_eq!(child.power_state, Some(PowerState::On));
    assert_eq!(rig.node().await.power_state, Some(PowerState::On));
    // The one with its own supply does not keep the parent on.
    switch(&rig, first, PowerTarget::Off).await;
    let parent = switch(&rig, rig.node, PowerTarget::Off).await;
    assert_eq!(parent.power_state, Some(PowerState::Off));
}
