//! The nodes that tests start from.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_store::HistoryEntry;
use wrought_store::Node;
use wrought_store::Port;
use wrought_store::Store;
use wrought_wire::state::ProvisionState;

/// `node-1`, in `enroll`.
pub(crate) const N1: &str = "aaaaaaaa-0000-4000-8000-000000000001";
/// A node without a name, `available`.
pub(crate) const N2: &str = "aaaaaaaa-0000-4000-8000-000000000002";
/// `node-a`, whose agent calls.
pub(crate) const A: &str = "aaaaaaaa-0000-4000-8000-0000000000a1";
const CHILD: &str = "aaaaaaaa-0000-4000-8000-0000000000c1";

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn node(uuid: &str, name: Option<&str>, state: ProvisionState) -> Node {
    let text = json!({
        "uuid": uuid, "name": name, "driver": "fake-hardware", "driver_info": {},
        "driver_internal_info": {}, "properties": {}, "instance_info": {}, "extra": {},
        "clean_step": {}, "deploy_step": {}, "service_step": {}, "raid_config": {},
        "target_raid_config": {}, "conductor_group": "", "provision_state": state,
        "maintenance": false, "console_enabled": false, "protected": false, "retired": false,
        "network_data": {}, "disable_power_off": false, "traits": [], "interfaces": {},
        "created_at": Timestamp::now(),
    });
    let mut node: Node = serde_json::from_value(text).unwrap();
    for kind in wrought_store::node::INTERFACE_KINDS {
        node.interfaces.insert(kind.to_owned(), "fake".to_owned());
    }
    node
}

fn port(uuid: &str, node: &str, address: &str) -> Port {
    let mut port = Port::new(node.parse().unwrap(), address);
    port.uuid = uuid.parse().unwrap();
    port
}

/// Fills the database.
pub(crate) async fn fill(store: &Store, fixture: &str) {
    let drivers = ["fake-hardware".to_owned(), "redfish".to_owned()];
    store
        .register_conductor(&wrought_store::Registration::new(
            "conductor-1",
            "",
            &drivers,
        ))
        .await
        .unwrap();
    if fixture == "empty" {
        return;
    }
    let mut first = node(N1, Some("node-1"), ProvisionState::Enroll);
    first.driver_info = object(json!({"foo": "bar", "ipmi_password": "sekret"}));
    first.properties = object(json!({"cpus": 4, "cpu_arch": "x86_64"}));
    first.extra = object(json!({"a": "b"}));
    first.traits = vec!["CUSTOM_GOLD".to_owned(), "HW_CPU_X86_VMX".to_owned()];
    if fixture == "active" {
        first.provision_state = ProvisionState::Active;
        first.instance_uuid = Some(Uuid::new_v4());
        first.instance_info = object(json!({"configdrive": "x", "rescue_password": "y"}));
    }
    first.retired = fixture == "retired";
    first.retired_reason = first.retired.then(|| "old".to_owned());
    let mut second = node(N2, None, ProvisionState::Available);
    if fixture == "instance" {
        second.instance_uuid = "99999999-0000-4000-8000-000000000001".parse().ok();
    }
    let mut child = node(CHILD, Some("child1"), ProvisionState::Enroll);
    child.parent_node = Some(N1.to_owned());
    let mut agent = node(A, Some("node-a"), ProvisionState::InspectWait);
    if fixture == "idle" {
        agent.provision_state = ProvisionState::Manageable;
    }
    agent.driver_internal_info = object(json!({"agent_secret_token": "known"}));
    for node in [first, second, child, agent] {
        if fixture != "parent" || node.uuid.to_string() != CHILD {
            store.create_node(&node).await.unwrap();
        }
    }
    if fixture != "noports" {
        for (uuid, node, address) in [
            (
                "cccccccc-0000-4000-8000-000000000001",
                N1,
                "52:54:00:12:34:56",
            ),
            (
                "cccccccc-0000-4000-8000-000000000002",
                N2,
                "52:54:00:12:34:99",
            ),
            (
                "cccccccc-0000-4000-8000-0000000000a1",
                A,
                "52:54:00:00:aa:02",
            ),
        ] {
            store.create_port(&port(uuid, node, address)).await.unwrap();
        }
    }
    if fixture == "locked" {
        let minute = Duration::from_secs(60);
        store
            .lock_node(N2.parse().unwrap(), "other-host", minute)
            .await
            .unwrap();
    }
    if fixture == "history" {
        for event in ["one", "two"] {
            let entry = HistoryEntry {
                uuid: Uuid::new_v4(),
                node: N1.parse().unwrap(),
                severity: Some("INFO".to_owned()),
                event_type: None,
                event: event.to_owned(),
                user: None,
                conductor: None,
                created_at: Timestamp::now(),
                state: None,
                target: None,
                project: None,
                duration: Some(Duration::from_millis(1500)),
            };
            store.add_history(&entry).await.unwrap();
        }
    }
}
