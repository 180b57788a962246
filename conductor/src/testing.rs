//! Nodes and ports for tests.

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;
use wrought_store::node::Node;
use wrought_store::port::Port;
use wrought_wire::state::ProvisionState;

use crate::config::Drivers;
use crate::drivers::catalog::Catalog;

/// A fresh node of a hardware type with its default interfaces.
pub(crate) fn node(driver: &str) -> Node {
    let blank = json!({
        "uuid": Uuid::new_v4(), "driver": driver, "driver_info": {}, "driver_internal_info": {},
        "properties": {}, "instance_info": {}, "extra": {}, "clean_step": {}, "deploy_step": {},
        "service_step": {}, "raid_config": {}, "target_raid_config": {}, "conductor_group": "",
        "provision_state": ProvisionState::Enroll, "maintenance": false, "console_enabled": false,
        "protected": false, "retired": false, "network_data": {}, "disable_power_off": false,
        "traits": [], "interfaces": {}, "created_at": Timestamp::now(),
    });
    let mut node: Node = serde_json::from_value(blank).unwrap();
    let catalog = Catalog::new(&Drivers::default()).unwrap();
    catalog.resolve(&mut node).unwrap();
    node
}

/// A port of a node.
pub(crate) fn port(node: Uuid, address: &str) -> Port {
    Port::new(node, address)
}
