//! Hooks and discovery, from what a ramdisk sends to what the records say.

use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_rpc::Conductor;
use wrought_rpc::Kind;
use wrought_store::Inventory;
use wrought_store::port::Port;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::MAC;
use super::rig::Rig;
use super::rig::request;
use crate::config::AddPorts;
use crate::config::Hook;
use crate::config::Inspection;
use crate::config::Network;
use crate::validate;

const SECOND: &str = "52:54:00:aa:bb:02";

fn found(inventory: Value, data: Value) -> Inventory {
    Inventory {
        inventory: inventory.as_object().unwrap().clone(),
        plugin_data: data.as_object().unwrap().clone(),
    }
}

/// A machine with two NICs, a switch that speaks, disks and a GPU.
fn machine(disks: &[&str]) -> Inventory {
    let gib = 1_u64 << 30;
    let disks: Vec<Value> = disks
        .iter()
        .map(|serial| json!({"name": format!("/dev/{serial}"), "serial": serial, "size": 50 * gib}))
        .collect();
    found(
        json!({
            "bmc_address": "192.0.2.77", "bmc_v6address": "::/0",
            "boot": {"current_boot_mode": "uefi", "pxe_interface": format!("01-{}", MAC.replace(':', "-"))},
            "cpu": {"architecture": "x86_64", "count": 4, "flags": ["vmx", "aes"]},
            "memory": {"total": 4_294_967_296_u64, "physical_mb": 4096},
            "disks": disks,
            "interfaces": [
                {"name": "eth0", "mac_address": MAC, "ipv4_address": "192.0.2.10", "client_id": "ff:1"},
                {"name": "eth1", "mac_address": SECOND, "ipv6_address": "2001:db8::1",
                    "lldp": [[1, "0464649b32f300"], [2, "0565746831"], [5, "73772d31"], [0, ""]]}],
        }),
        json!({
            "root_disk": {"name": "/dev/a", "size": 50 * gib},
            "pci_devices": [{"vendor_id": "10de", "product_id": "1eb8", "bus": "0000:03:00.0"}],
        }),
    )
}

async fn rig(settings: impl FnOnce(&mut Inspection)) -> Rig {
    let rig = Rig::with(
        "redfish",
        |config| settings(&mut config.conductor.inspection),
        |node| {
            node.interfaces
                .insert("inspect".to_owned(), "agent".to_owned());
        },
    )
    .await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig
}

async fn inspect(rig: &Rig, found: Inventory, end: S) -> wrought_store::node::Node {
    rig.ask(Verb::Inspect).await;
    rig.reaches(S::InspectWait).await;
    let sent = rig.service.continue_inspection(Some(rig.node), found);
    sent.await.unwrap();
    rig.reaches(end).await
}

#[tokio::test]
async fn all_hooks_together() {
    let rig = rig(|settings| {
        settings.add_ports = AddPorts::All;
        settings.hooks = vec![
            Hook::RamdiskError,
            Hook::ValidateInterfaces,
            Hook::Ports,
            Hook::Architecture,
            Hook::Cpus,
            Hook::Memory,
            Hook::BootMode,
            Hook::CpuCapabilities,
            Hook::PciDevices,
            Hook::Accelerators,
            Hook::RaidDevice,
            Hook::RootDevice,
            Hook::ParseLldp,
            Hook::LocalLinkConnection,
            Hook::PhysicalNetwork,
        ];
        let network = Network::try_from("2001:db8::/64:storage".to_owned());
        settings.physical_network_cidr_map = vec![network.unwrap()];
    })
    .await;
    let node = inspect(&rig, machine(&["a"]), S::Manageable).await;
    assert_eq!(
        Value::Object(node.properties),
        json!({
            "cpu_arch": "x86_64", "cpus": 4, "memory_mb": 4096, "local_gb": 49,
            "capabilities": "boot_mode:uefi,cpu_aes:true,cpu_vt:true",
            "accelerators": [{"vendor_id": "10de", "device_id": "1eb8", "type": "GPU",
                "device_info": "NVIDIA Corporation Tesla T4", "pci_address": "0000:03:00.0"}],
        })
    );
    let ports = validate::ports(&rig.service, rig.node).await.unwrap();
    let port = |address: &str| ports.iter().find(|port| port.address == address).unwrap();
    assert_eq!(port(MAC).extra["client-id"], "ff:1");
    assert!(port(MAC).pxe_enabled && !port(SECOND).pxe_enabled);
    assert!(port(MAC).local_link_connection.is_empty());
    assert_eq!(port(MAC).physical_network, None);
    let expected = json!({"switch_id": "64:64:9b:32:f3:00", "port_id": "eth1",
        "switch_info": "sw-1"});
    assert_eq!(
        Value::Object(port(SECOND).local_link_connection.clone()),
        expected
    );
    assert_eq!(port(SECOND).physical_network.as_deref(), Some("storage"));
    let stored = rig.store.inventory(rig.node).await.unwrap().unwrap();
    let words = &stored.plugin_data["parsed_lldp"];
    assert_eq!(words["eth1"]["switch_system_name"], "sw-1");
    // What a port says of its switch stays; the rest follows.
    let mut known = port(SECOND).clone();
    known.local_link_connection = json!({"port_id": "mine"}).as_object().unwrap().clone();
    rig.store.save(&mut known).await.unwrap();
    inspect(&rig, machine(&["a"]), S::Manageable).await;
    let ports = validate::ports(&rig.service, rig.node).await.unwrap();
    let port = ports.iter().find(|port| port.address == SECOND).unwrap();
    assert_eq!(port.local_link_connection["port_id"], "mine");
    assert_eq!(port.local_link_connection["switch_info"], "sw-1");
}

#[tokio::test]
async fn the_disk_that_a_raid_made_is_found_by_a_second_inspection() {
    let rig = rig(|settings| settings.hooks.push(Hook::RaidDevice)).await;
    let node = inspect(&rig, machine(&["a", "b"]), S::Manageable).await;
    assert!(!node.properties.contains_key("root_device"));
    // One that fails in between changes nothing.
    let mut broken = machine(&["a", "b", "volume"]);
    let error = json!("the controller is busy");
    broken.plugin_data.insert("error".to_owned(), error);
    inspect(&rig, broken, S::InspectFail).await;
    let node = inspect(&rig, machine(&["a", "b", "volume"]), S::Manageable).await;
    assert_eq!(node.properties["root_device"], json!({"serial": "volume"}));
    assert!(
        !node
            .driver_internal_info
            .contains_key("wrought_known_disks")
    );
}

#[tokio::test]
async fn an_inventory_without_what_a_hook_needs_says_what() {
    let rig = rig(|settings| settings.hooks.push(Hook::RootDevice)).await;
    let mut bare = machine(&["a"]);
    bare.inventory.remove("cpu");
    let node = inspect(&rig, bare, S::InspectFail).await;
    assert_eq!(
        node.last_error.as_deref(),
        Some(
            "Failed to finish inspection: the inventory that the ramdisk sent has no \
             cpu.architecture"
        )
    );
    let mut node = rig.node().await;
    let hints = json!({"serial": "z"});
    node.properties.insert("root_device".to_owned(), hints);
    let fields = vec!["properties".to_owned()];
    rig.service.update_node(node, fields, false).await.unwrap();
    let node = inspect(&rig, machine(&["a", "b"]), S::InspectFail).await;
    let text = node.last_error.unwrap();
    assert!(
        text.contains("(serial: z)") && text.ends_with("/dev/a, /dev/b"),
        "{text}"
    );
}

#[tokio::test]
async fn inspection_that_cannot_work_is_refused_with_one_message() {
    let rig = rig(|_| {}).await;
    for port in validate::ports(&rig.service, rig.node).await.unwrap() {
        rig.store.remove::<Port>(port.uuid).await.unwrap();
    }
    let asked = rig
        .service
        .provision(rig.node, request(Verb::Inspect))
        .await;
    let refused = asked.unwrap_err();
    assert_eq!(refused.kind, Kind::InvalidParameter);
    let text = refused.to_string();
    assert!(
        text.contains("inspection") && text.contains("create a port with the MAC"),
        "{text}"
    );
    assert_eq!(rig.node().await.provision_state, S::Manageable);
}

fn stranger(number: u8) -> Inventory {
    let mut found = machine(&["a"]);
    found.inventory["boot"] = Value::Null;
    found.inventory["interfaces"] = json!([{"name": "eth0", "ipv4_address": "192.0.2.9",
        "mac_address": format!("02:00:00:00:00:{number:02x}")}]);
    found.inventory["bmc_address"] = json!(format!("192.0.2.{number}"));
    found
}

#[tokio::test]
async fn unknown_machines_are_enrolled_up_to_a_bound_and_once_each() {
    let rig = Rig::with(
        "redfish",
        |config| {
            let settings = &mut config.conductor.inspection;
            settings.discovery_driver = Some("redfish".to_owned());
            settings.discovery_max = 2;
            let fields = json!({"resource_class": "found", "driver_info":
                {"redfish_username": "operator"}});
            settings.discovery_fields = fields.as_object().unwrap().clone();
        },
        |_| {},
    )
    .await;
    let ask = async |number| {
        rig.service
            .continue_inspection(None, stranger(number))
            .await
    };
    let done = async |node: Uuid| {
        rig.until("done", async || {
            let node = rig.store.node_by_uuid(node).await.unwrap().unwrap();
            node.inspection_finished_at.is_some() && node.reservation.is_none()
        })
        .await;
        rig.store.node_by_uuid(node).await.unwrap().unwrap()
    };
    // Twice at the same time: one node.
    let (one, other) = tokio::join!(ask(101), ask(101));
    assert_eq!(one.is_ok() as u8 + other.is_ok() as u8, 1);
    let first = done(one.or(other).unwrap().node.uuid).await;
    assert_eq!(first.provision_state, S::Enroll);
    assert_eq!(first.resource_class.as_deref(), Some("found"));
    assert_eq!(first.driver_info["redfish_address"], "https://192.0.2.101");
    assert_eq!(first.driver_info["redfish_username"], "operator");
    assert_eq!(first.properties["cpu_arch"], "x86_64");
    done(ask(102).await.unwrap().node.uuid).await;
    // No more than two; those that are known stay known.
    for number in [103, 101] {
        let refused = ask(number).await.unwrap_err();
        assert_eq!(refused.kind, Kind::NotFound, "{refused}");
    }
    // Who is taken care of makes room.
    rig.service.destroy_node(first.uuid).await.unwrap();
    done(ask(103).await.unwrap().node.uuid).await;
    // A machine without an address could not be found again.
    let mut nobody = stranger(104);
    nobody.inventory["interfaces"] = json!([{"name": "eth0"}]);
    let refused = rig.service.continue_inspection(None, nobody).await;
    assert_eq!(refused.unwrap_err().kind, Kind::NotFound);
}
