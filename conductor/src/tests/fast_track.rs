//! Fast track: a ramdisk that runs is used again.

use std::time::Duration;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_rpc::Conductor;
use wrought_rpc::Kind;
use wrought_store::Inventory;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::MAC;
use super::rig::Rig;

async fn rig() -> Rig {
    Rig::with(
        "redfish",
        |config| config.conductor.fast_track = true,
        |_| {},
    )
    .await
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[tokio::test]
async fn clean_and_deploy_with_one_start_of_the_machine() {
    let rig = rig().await;
    rig.make_available().await;
    let node = rig.node().await;
    assert!(rig.machine.is_on(), "the ramdisk stays up");
    assert!(node.driver_internal_info.contains_key("agent_url"));
    assert!(!node.driver_internal_info.contains_key("wrought_boot"));
    // The next command must see this.
    let mut node = rig.node().await;
    let disk = json!({"serial": "new"});
    node.properties
        .insert("root_device".to_owned(), disk.clone());
    let fields = vec!["properties".to_owned()];
    rig.service.update_node(node, fields, false).await.unwrap();
    rig.deploy().await;
    assert_eq!(rig.machine.count("boots pxe"), 1);
    assert_eq!(rig.machine.count("boots disk"), 1);
    for command in ["deploy.get_deploy_steps", "deploy.execute_deploy_step"] {
        let body = rig.machine.body(command);
        assert_eq!(body["params"]["node"]["properties"]["root_device"], disk);
        assert_eq!(body["params"]["node"]["uuid"], json!(rig.node));
    }
    let node = rig.node().await;
    assert!(!node.driver_internal_info.contains_key("agent_url"));
}

#[tokio::test]
async fn inspect_then_clean_with_one_start_of_the_machine() {
    let rig = Rig::with(
        "redfish",
        |_| {},
        |node| {
            node.driver_info
                .insert("fast_track".to_owned(), json!(true));
            node.interfaces
                .insert("inspect".to_owned(), "agent".to_owned());
        },
    )
    .await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.ask(Verb::Inspect).await;
    rig.reaches(S::InspectWait).await;
    let found = Inventory {
        inventory: object(json!({"interfaces": [{"name": "eth0", "mac_address": MAC}],
            "cpu": {"architecture": "x86_64"}})),
        ..Inventory::default()
    };
    rig.until("the lookup", async || {
        let node = rig.node().await;
        node.driver_internal_info.contains_key("agent_secret_token")
    })
    .await;
    rig.service
        .continue_inspection(Some(rig.node), found)
        .await
        .unwrap();
    rig.reaches(S::Manageable).await;
    assert!(rig.machine.is_on());
    rig.ask(Verb::Provide).await;
    rig.reaches(S::Available).await;
    assert_eq!(rig.machine.count("boots pxe"), 1);
    assert_eq!(rig.machine.count("done deploy.erase_devices"), 1);
    assert!(rig.machine.is_on());
}

#[tokio::test]
async fn a_ramdisk_that_is_gone_is_started() {
    let rig = rig().await;
    rig.make_available().await;
    rig.machine.agent_powers_off().await;
    rig.deploy().await;
    assert_eq!(rig.machine.count("boots pxe"), 2);
}

#[tokio::test]
async fn a_ramdisk_that_is_silent_is_started_anew() {
    let rig = Rig::with(
        "redfish",
        |config| {
            config.conductor.fast_track = true;
            config.conductor.fast_track_timeout = 0;
        },
        |_| {},
    )
    .await;
    rig.make_available().await;
    rig.deploy().await;
    assert_eq!(rig.machine.count("boots pxe"), 2);
}

#[tokio::test]
async fn after_a_failure_the_ramdisk_is_a_fresh_one() {
    let rig = rig().await;
    rig.make_available().await;
    let lease = loop {
        let locked = rig
            .store
            .lock_node(rig.node, "test", Duration::from_secs(60))
            .await;
        if let Ok(lease) = locked {
            break lease;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let mut node = rig.node().await;
    node.last_error = Some("something".to_owned());
    rig.store.save_node(&lease, &mut node).await.unwrap();
    rig.store.unlock(lease).await.unwrap();
    rig.deploy().await;
    assert_eq!(rig.machine.count("boots pxe"), 2);
}

#[tokio::test]
async fn heartbeats_and_lookups_in_states_of_rest() {
    let rig = rig().await;
    let refused = rig.service.lookup(rig.node).await.unwrap_err();
    assert_eq!(refused.kind, Kind::NotFound, "nobody gets a token to keep");
    rig.make_available().await;
    let config = rig.service.lookup(rig.node).await.unwrap();
    assert_eq!(config["agent_token"], "******");
    let before = jiff::Timestamp::now();
    rig.until("a heartbeat", async || {
        let last = rig.store.last_heartbeat(rig.node).await.unwrap();
        last.is_some_and(|last| last > before)
    })
    .await;
    assert_eq!(rig.node().await.provision_state, S::Available);
}

#[tokio::test]
async fn without_it_nothing_stays_up() {
    let rig = Rig::with(
        "redfish",
        |config| config.conductor.fast_track = true,
        |node| {
            node.driver_info
                .insert("fast_track".to_owned(), json!("false"));
        },
    )
    .await;
    rig.make_available().await;
    assert!(!rig.machine.is_on());
    let refused = rig.service.lookup(rig.node).await.unwrap_err();
    assert_eq!(refused.kind, Kind::NotFound);
    rig.deploy().await;
    assert_eq!(rig.machine.count("boots pxe"), 2);
}
