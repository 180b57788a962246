//! Ports: the NICs of a node by which it is found and booted.

pub mod query;

mod table;

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;

use crate::codec;

/// One port. Field names are the API's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Identity.
    pub uuid: Uuid,
    /// MAC address, lower case, with colons.
    pub address: String,
    /// The node that has it.
    pub node_uuid: Uuid,
    /// The portgroup that it is part of (1.24).
    pub portgroup_uuid: Option<Uuid>,
    /// Optional unique name (1.88).
    pub name: Option<String>,
    /// Free text (1.97).
    pub description: Option<String>,
    /// Operator's own data.
    pub extra: Map<String, Value>,
    /// The service's own data.
    pub internal_info: Map<String, Value>,
    /// Switch and port that it hangs on.
    pub local_link_connection: Map<String, Value>,
    /// Whether the node may network-boot by it.
    pub pxe_enabled: bool,
    /// Physical network.
    pub physical_network: Option<String>,
    /// Whether it is a smart NIC.
    pub is_smartnic: bool,
    /// Vendor (1.100).
    pub vendor: Option<String>,
    /// Category (1.101).
    pub category: Option<String>,
    /// Whether a portgroup that is made on demand may take it (1.111).
    pub available_for_dynamic_portgroup: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
}

impl Default for Port {
    fn default() -> Self {
        Self {
            uuid: Uuid::new_v4(),
            address: String::new(),
            node_uuid: Uuid::nil(),
            portgroup_uuid: None,
            name: None,
            description: None,
            extra: Map::new(),
            internal_info: Map::new(),
            local_link_connection: Map::new(),
            pxe_enabled: true,
            physical_network: None,
            is_smartnic: false,
            vendor: None,
            category: None,
            available_for_dynamic_portgroup: true,
            created_at: codec::now(),
            updated_at: None,
        }
    }
}

impl Port {
    /// A new port of a node, with what holds without settings.
    pub fn new(node_uuid: Uuid, address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            node_uuid,
            ..Self::default()
        }
    }
}
