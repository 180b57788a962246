//! Inspections, from the request to the node at rest.

use std::time::Duration;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_rpc::Conductor;
use wrought_rpc::Kind;
use wrought_store::InspectionRule;
use wrought_store::Inventory;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::MAC;
use super::rig::Rig;
use super::rig::request;
use crate::config::AddPorts;
use crate::config::Hook;
use crate::config::KeepPorts;
use crate::testing;
use crate::validate;

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// What a ramdisk sends, as a real one does.
fn found() -> Inventory {
    Inventory {
        inventory: object(json!({"bmc_address": "192.0.2.77", "bmc_v6address": "::/0",
            "boot": {"current_boot_mode": "bios", "pxe_interface": MAC},
            "cpu": {"architecture": "x86_64", "count": 4},
            "memory": {"total": 4_294_967_296_u64, "physical_mb": 4096},
            "interfaces": [
                {"name": "eth0", "mac_address": MAC, "ipv4_address": "192.0.2.10"},
                {"name": "eth1", "mac_address": "52:54:00:aa:bb:02", "ipv4_address": null}]})),
        plugin_data: object(
            json!({"root_disk": {"name": "/dev/vda", "size": 10_737_418_240_u64},
            "boot_interface": MAC}),
        ),
    }
}

async fn rig(settings: impl FnOnce(&mut crate::config::Inspection)) -> Rig {
    let rig = Rig::with(
        "redfish",
        |config| settings(&mut config.conductor.inspection),
        |node| {
            node.interfaces
                .insert("inspect".to_owned(), "agent".to_owned());
            node.driver_info
                .insert("redfish_address".to_owned(), json!("https://192.0.2.77"));
        },
    )
    .await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig
}

async fn waiting(rig: &Rig) {
    rig.ask(Verb::Inspect).await;
    rig.reaches(S::InspectWait).await;
}

async fn rule(rig: &Rig, conditions: Value, actions: Value) -> InspectionRule {
    let rule = InspectionRule {
        conditions: conditions.as_array().unwrap().clone(),
        actions: actions.as_array().unwrap().clone(),
        ..InspectionRule::default()
    };
    rig.service
        .create_record(rule.clone().into())
        .await
        .unwrap();
    rule
}

async fn addresses(rig: &Rig) -> Vec<String> {
    let ports = validate::ports(&rig.service, rig.node).await.unwrap();
    ports.into_iter().map(|port| port.address).collect()
}

#[tokio::test]
async fn without_a_machine_it_is_over_at_once() {
    let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.ask(Verb::Inspect).await;
    let node = rig.reaches(S::Manageable).await;
    assert!(node.inspection_finished_at > node.inspection_started_at);
    assert!(node.inspection_started_at.is_some());
    assert_eq!((node.last_error, node.target_provision_state), (None, None));
    for (inspect, result) in [("no-inspect", false), ("agent", true), ("fake", true)] {
        let mut node = rig.node().await;
        node.interfaces
            .insert("inspect".to_owned(), inspect.to_owned());
        let fields = vec!["inspect_interface".to_owned()];
        rig.service.update_node(node, fields, false).await.unwrap();
        let checks = rig.service.validate(rig.node).await.unwrap();
        assert_eq!(checks["inspect"].result, Some(result), "{inspect}");
        let asked = rig
            .service
            .provision(rig.node, request(Verb::Inspect))
            .await;
        match inspect {
            "no-inspect" => assert_eq!(asked.unwrap_err().kind, Kind::Unsupported),
            "agent" => {
                asked.unwrap();
                rig.reaches(S::InspectWait).await;
                rig.service
                    .continue_inspection(Some(rig.node), found())
                    .await
                    .unwrap();
                rig.reaches(S::Manageable).await;
            }
            _ => asked.unwrap(),
        }
    }
}

#[tokio::test]
async fn by_what_the_bmc_tells() {
    let rig = Rig::new().await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.ask(Verb::Inspect).await;
    rig.until("inspected", async || {
        rig.node().await.inspection_finished_at.is_some()
    })
    .await;
    let node = rig.reaches(S::Manageable).await;
    assert_eq!(node.properties["memory_mb"], 16384);
    assert_eq!(addresses(&rig).await, [MAC, "52:54:00:aa:bb:02"]);
    let stored = rig.store.inventory(rig.node).await.unwrap().unwrap();
    assert_eq!(stored.inventory["system_vendor"]["manufacturer"], "ACME");
    assert_eq!(stored.inventory["interfaces"].as_array().unwrap().len(), 3);
    assert!(rig.machine.logged().is_empty(), "the machine is left alone");
    rig.machine.knobs(|knobs| knobs.bmc_gone = true);
    rig.ask(Verb::Inspect).await;
    let node = rig.reaches(S::InspectFail).await;
    let text = node.last_error.unwrap();
    assert!(
        text.ends_with("read the system: the BMC does not answer"),
        "{text}"
    );
}

#[tokio::test]
async fn by_the_ramdisk() {
    let rig = rig(|_| {}).await;
    rule(
        &rig,
        json!([{"op": "eq", "args": {"values": ["{node.driver}", "redfish"]}}]),
        json!([{"op": "set-attribute", "args": {"path": "/extra/x", "value": "{inventory[cpu][count]}"}},
            {"op": "set-port-attribute", "args": {"port_id": MAC, "path": "/extra/y", "value": 1}},
            {"op": "add-trait", "args": {"name": "CUSTOM_SEEN"}}]),
    )
    .await;
    waiting(&rig).await;
    let node = rig.node().await;
    assert_eq!(node.target_provision_state, Some(S::Manageable));
    assert!(node.inspection_started_at.is_some() && node.inspection_finished_at.is_none());
    assert!(rig.machine.is_on());
    let inspected = rig
        .service
        .continue_inspection(Some(rig.node), found())
        .await
        .unwrap();
    assert_eq!(inspected.node.uuid, rig.node);
    assert_eq!(inspected.config["heartbeat_timeout"], 300);
    let node = rig.reaches(S::Manageable).await;
    assert_eq!(
        (node.last_error.clone(), node.target_provision_state),
        (None, None)
    );
    assert_eq!(
        Value::Object(node.properties.clone()),
        json!({"cpu_arch": "x86_64"})
    );
    assert_eq!(node.extra["x"], "4");
    assert_eq!(node.traits, ["CUSTOM_SEEN"]);
    assert!(node.inspection_finished_at.is_some());
    assert!(!rig.machine.is_on(), "the ramdisk is not needed any more");
    for key in [
        "wrought_inspected",
        "lookup_bmc_addresses",
        "wrought_boot",
        "agent_secret_token",
    ] {
        assert!(
            !node.driver_internal_info.contains_key(key),
            "{key} is left"
        );
    }
    let stored = rig.store.inventory(rig.node).await.unwrap().unwrap();
    assert_eq!(stored.inventory, found().inventory);
    let mut keys: Vec<&str> = stored.plugin_data.keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        [
            "all_interfaces",
            "boot_interface",
            "macs",
            "root_disk",
            "valid_interfaces"
        ]
    );
    assert_eq!(stored.plugin_data["macs"], json!([MAC]));
    let ports = validate::ports(&rig.service, rig.node).await.unwrap();
    assert_eq!(ports.len(), 1);
    assert_eq!(ports[0].extra["y"], 1);
    // Once only.
    let late = rig
        .service
        .continue_inspection(Some(rig.node), found())
        .await;
    assert_eq!(late.unwrap_err().kind, Kind::NotFound);
}

#[tokio::test]
async fn ports_and_properties_as_configured() {
    let rig = rig(|settings| {
        settings.hooks.extend([Hook::Memory, Hook::RootDevice]);
        settings.add_ports = AddPorts::All;
        settings.keep_ports = KeepPorts::Added;
        settings.power_off = false;
    })
    .await;
    let stale = testing::port(rig.node, "52:54:00:aa:bb:09");
    rig.service.create_record(stale.into()).await.unwrap();
    waiting(&rig).await;
    rig.service
        .continue_inspection(None, found())
        .await
        .unwrap();
    let node = rig.reaches(S::Manageable).await;
    assert_eq!(
        Value::Object(node.properties),
        json!({"cpu_arch": "x86_64", "memory_mb": 4096, "local_gb": 9})
    );
    assert_eq!(addresses(&rig).await, [MAC, "52:54:00:aa:bb:02"]);
    assert!(rig.machine.is_on());
    let ports = validate::ports(&rig.service, rig.node).await.unwrap();
    assert_eq!((ports[0].pxe_enabled, ports[1].pxe_enabled), (true, false));
}

#[tokio::test]
async fn failures_leave_the_node_as_it_was() {
    let rig = rig(|_| {}).await;
    let failing = rule(
        &rig,
        json!([]),
        json!([{"op": "set-attribute", "args": {"path": "/extra/x", "value": "y"}},
            {"op": "fail", "args": {"msg": "{inventory[cpu][count]} cores are too few"}}]),
    )
    .await;
    waiting(&rig).await;
    rig.service
        .continue_inspection(Some(rig.node), found())
        .await
        .unwrap();
    let node = rig.reaches(S::InspectFail).await;
    assert_eq!(
        node.last_error.as_deref(),
        Some("Failed to finish inspection: 4 cores are too few")
    );
    assert!(node.extra.is_empty() && node.properties.is_empty());
    assert!(!rig.machine.is_on());
    rig.service.destroy_record(failing.into()).await.unwrap();
    // From here, inspected again.
    waiting(&rig).await;
    let mut broken = found();
    broken
        .plugin_data
        .insert("error".to_owned(), json!("no disks"));
    rig.service
        .continue_inspection(Some(rig.node), broken)
        .await
        .unwrap();
    let node = rig.reaches(S::InspectFail).await;
    assert_eq!(
        node.last_error.as_deref(),
        Some("Failed to finish inspection: the ramdisk reported: no disks")
    );
    // A name that another node has.
    let mut other = testing::node("fake-hardware");
    other.name = Some("taken".to_owned());
    rig.service.create_node(other).await.unwrap();
    rule(
        &rig,
        json!([]),
        json!([{"op": "set-attribute", "args": ["/name", "taken"]}]),
    )
    .await;
    waiting(&rig).await;
    rig.service
        .continue_inspection(Some(rig.node), found())
        .await
        .unwrap();
    let node = rig.reaches(S::InspectFail).await;
    assert!(node.last_error.unwrap().contains("taken"));
    assert_eq!(node.name, None);
}

#[tokio::test]
async fn rules_that_cannot_be_carried_out_are_refused() {
    let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
    for (conditions, actions) in [
        (
            json!([{"op": "matches", "args": {"value": "x", "regex": "("}}]),
            json!([]),
        ),
        (json!([]), json!([{"op": "nope", "args": {}}])),
    ] {
        let rule = InspectionRule {
            conditions: conditions.as_array().unwrap().clone(),
            actions: actions.as_array().unwrap().clone(),
            ..InspectionRule::default()
        };
        let refused = rig.service.create_record(rule.into()).await.unwrap_err();
        assert_eq!(refused.kind, Kind::InvalidParameter, "{refused}");
    }
}

#[tokio::test]
async fn found_by_what_was_found() {
    let rig = rig(|_| {}).await;
    let missing = async |node: Option<Uuid>, found: Inventory| {
        let refused = rig
            .service
            .continue_inspection(node, found)
            .await
            .unwrap_err();
        assert_eq!(refused.kind, Kind::NotFound, "{refused}");
    };
    missing(Some(rig.node), found()).await;
    missing(None, found()).await;
    waiting(&rig).await;
    assert_eq!(
        Rig::internal(&rig.node().await, "lookup_bmc_addresses"),
        json!(["192.0.2.77"])
    );
    missing(Some(Uuid::new_v4()), found()).await;
    let mut stranger = found();
    stranger.inventory["interfaces"] = json!([{"name": "e", "mac_address": "02:00:00:00:00:99"}]);
    stranger.inventory["boot"] = Value::Null;
    stranger.plugin_data.remove("boot_interface");
    let mut nobody = stranger.clone();
    nobody.inventory["bmc_address"] = json!("0.0.0.0");
    missing(None, nobody).await;
    // A NIC of one node and the BMC of another.
    let mut other = testing::node("redfish");
    other.driver_internal_info.insert("x".to_owned(), json!(1));
    rig.store.create_node(&other).await.unwrap();
    let port = testing::port(other.uuid, "02:00:00:00:00:98");
    rig.store.insert(&port).await.unwrap();
    let mut mixed = stranger.clone();
    mixed.inventory["interfaces"] = json!([{"name": "e", "mac_address": "02:00:00:00:00:98"}]);
    missing(None, mixed).await;
    let lease = loop {
        // The machine's own ramdisk may be asking for its token.
        let minute = Duration::from_secs(60);
        if let Ok(lease) = rig.store.lock_node(rig.node, "other", minute).await {
            break lease;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let locked = rig
        .service
        .continue_inspection(None, stranger.clone())
        .await;
    assert_eq!(locked.unwrap_err().kind, Kind::NodeLocked);
    rig.store.unlock(lease).await.unwrap();
    // By its BMC alone.
    let inspected = rig
        .service
        .continue_inspection(None, stranger)
        .await
        .unwrap();
    assert_eq!(inspected.node.uuid, rig.node);
    rig.reaches(S::Manageable).await;
}

#[tokio::test]
async fn stopped_and_timed_out() {
    let rig = rig(|settings| settings.timeout = 1).await;
    waiting(&rig).await;
    rig.ask(Verb::Abort).await;
    let node = rig.node().await;
    assert_eq!(node.provision_state, S::InspectFail);
    assert_eq!(
        node.last_error.as_deref(),
        Some("Inspection was aborted by request.")
    );
    rig.until("off", async || !rig.machine.is_on()).await;
    rig.reaches(S::InspectFail).await;
    waiting(&rig).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    crate::periodic::check_timeouts(&rig.service).await;
    let node = rig.reaches(S::InspectFail).await;
    assert!(
        node.last_error
            .unwrap()
            .starts_with("Timeout reached while inspecting the node.")
    );
    rig.until("off", async || !rig.machine.is_on()).await;
}

#[tokio::test]
async fn killed_while_inspecting() {
    let mut rig = rig(|_| {}).await;
    rule(
        &rig,
        json!([]),
        json!([{"op": "extend-attribute", "args": {"path": "/extra/list", "value": "once"}}]),
    )
    .await;
    for moment in [0, 5, 20, 60] {
        rig.ask(Verb::Inspect).await;
        tokio::time::sleep(Duration::from_millis(moment)).await;
        rig.machine.crash_conductor().await;
        rig.restart().await;
        rig.reaches(S::InspectWait).await;
        rig.service
            .continue_inspection(Some(rig.node), found())
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(moment)).await;
        rig.machine.crash_conductor().await;
        rig.restart().await;
        let node = rig.reaches(S::Manageable).await;
        assert_eq!(node.last_error, None);
    }
    let node = rig.node().await;
    assert_eq!(
        node.extra["list"].as_array().unwrap().len(),
        4,
        "each time once"
    );
}

#[tokio::test]
async fn unknown_machines_are_enrolled_where_that_is_on() {
    let rig = Rig::with(
        "redfish",
        |config| config.conductor.inspection.discovery_driver = Some("fake-hardware".to_owned()),
        |_| {},
    )
    .await;
    rule(
        &rig,
        json!([{"op": "is-true", "args": {"value": "{plugin_data[auto_discovered]}"}}]),
        json!([{"op": "set-attribute", "args": {"path": "/name", "value": "found-{inventory[cpu][count]}"}}]),
    )
    .await;
    // One that is known, but waits for nothing, is not made again.
    let known = rig.service.continue_inspection(None, found()).await;
    assert_eq!(known.unwrap_err().kind, Kind::NotFound);
    let mut stranger = found();
    stranger.inventory["interfaces"] = json!([{"name": "e", "mac_address": "02:00:00:00:00:99",
        "ipv4_address": "192.0.2.9"}]);
    stranger.inventory["boot"] = Value::Null;
    stranger.plugin_data.remove("boot_interface");
    let made = rig
        .service
        .continue_inspection(None, stranger.clone())
        .await
        .unwrap();
    let uuid = made.node.uuid;
    assert_ne!(uuid, rig.node);
    rig.until("done", async || {
        let node = rig.store.node_by_uuid(uuid).await.unwrap().unwrap();
        node.inspection_finished_at.is_some() && node.reservation.is_none()
    })
    .await;
    let node = rig.store.node_by_uuid(uuid).await.unwrap().unwrap();
    assert_eq!(node.provision_state, S::Enroll);
    assert_eq!(node.name.as_deref(), Some("found-4"));
    assert_eq!(node.properties["cpu_arch"], "x86_64");
    let ports = validate::ports(&rig.service, uuid).await.unwrap();
    assert_eq!(ports[0].address, "02:00:00:00:00:99");
    let again = rig.service.continue_inspection(None, stranger).await;
    assert_eq!(again.unwrap_err().kind, Kind::NotFound);
}
