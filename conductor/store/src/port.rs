//! Ports: the NICs of a node by which it is found and booted.

pub mod query;

mod table;

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;

/// One port. Field names are the API's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Identity.
    pub uuid: Uuid,
    /// MAC address, lower case, with colons.
    pub address: String,
    /// The node that has it.
    pub node_uuid: Uuid,
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
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
}
