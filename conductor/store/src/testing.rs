//! Sample rows for tests.

mod postgres;

use std::collections::BTreeMap;

use serde_json::Map;
use uuid::Uuid;
use wrought_wire::state::ProvisionState;

use crate::Node;
use crate::Port;
use crate::Store;
use crate::codec;

/// An empty database: in memory, or one of its own on the PostgreSQL server
/// that [`postgres`] has started for a second run of all tests.
pub(crate) async fn store() -> Store {
    match std::env::var(postgres::SERVER) {
        Ok(server) => postgres::database(&server).await,
        Err(_) => Store::open("sqlite::memory:").await.unwrap(),
    }
}

/// A bare node with that name.
pub(crate) fn node(name: &str) -> Node {
    Node {
        uuid: Uuid::new_v4(),
        name: Some(name.to_owned()),
        driver: "fake-hardware".to_owned(),
        driver_info: Map::new(),
        driver_internal_info: Map::new(),
        properties: Map::new(),
        instance_info: Map::new(),
        instance_uuid: None,
        instance_name: None,
        extra: Map::new(),
        clean_step: Map::new(),
        deploy_step: Map::new(),
        service_step: Map::new(),
        raid_config: Map::new(),
        target_raid_config: Map::new(),
        reservation: None,
        conductor_group: String::new(),
        power_state: None,
        target_power_state: None,
        provision_state: ProvisionState::Enroll,
        target_provision_state: None,
        provision_updated_at: None,
        maintenance: false,
        maintenance_reason: None,
        fault: None,
        last_error: None,
        console_enabled: false,
        resource_class: None,
        inspection_started_at: None,
        inspection_finished_at: None,
        automated_clean: None,
        protected: false,
        protected_reason: None,
        owner: None,
        lessee: None,
        description: None,
        retired: false,
        retired_reason: None,
        network_data: Map::new(),
        boot_mode: None,
        secure_boot: None,
        shard: None,
        parent_node: None,
        disable_power_off: false,
        chassis_uuid: None,
        traits: Vec::new(),
        interfaces: BTreeMap::new(),
        created_at: codec::now(),
        updated_at: None,
    }
}

/// A stored node with that name.
pub(crate) async fn stored(store: &Store, name: &str) -> Node {
    let node = node(name);
    store.create_node(&node).await.unwrap();
    node
}

/// A port of the node.
pub(crate) fn port(node: Uuid, address: &str) -> Port {
    Port::new(node, address)
}
