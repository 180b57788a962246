//! Nodes: the machines.

pub mod query;

mod row;
mod table;

pub use query::NodeBrief;

pub(crate) use table::find;

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_wire::state::PowerState;
use wrought_wire::state::ProvisionState;

/// One node as it is stored. Field names and meanings are the API's
/// (unmasked); what Ironic computes per request (links, conductor) is not here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Identity.
    pub uuid: Uuid,
    /// Optional unique name.
    pub name: Option<String>,
    /// Hardware type, such as `redfish`.
    pub driver: String,
    /// How to reach the BMC and the deploy ramdisk; holds secrets.
    pub driver_info: Map<String, Value>,
    /// The conductor's working data; holds secrets.
    pub driver_internal_info: Map<String, Value>,
    /// What the machine is.
    pub properties: Map<String, Value>,
    /// What is to be deployed; holds the config drive.
    pub instance_info: Map<String, Value>,
    /// The instance that it is associated with.
    pub instance_uuid: Option<Uuid>,
    /// Its display name (1.104).
    pub instance_name: Option<String>,
    /// Operator's own data.
    pub extra: Map<String, Value>,
    /// The clean step that runs now, or empty.
    pub clean_step: Map<String, Value>,
    /// The deploy step that runs now, or empty.
    pub deploy_step: Map<String, Value>,
    /// The service step that runs now, or empty.
    pub service_step: Map<String, Value>,
    /// RAID as it is.
    pub raid_config: Map<String, Value>,
    /// RAID as it is to be.
    pub target_raid_config: Map<String, Value>,
    /// Host that holds the lock now.
    pub reservation: Option<String>,
    /// Group of conductors that may own it; lower case.
    pub conductor_group: String,
    /// Power as last seen.
    pub power_state: Option<PowerState>,
    /// Power that is being brought about.
    pub target_power_state: Option<PowerState>,
    /// Where it is in its life.
    pub provision_state: ProvisionState,
    /// Where it is going.
    pub target_provision_state: Option<ProvisionState>,
    /// When one of the two changed, or the ramdisk last called in a wait state.
    pub provision_updated_at: Option<Timestamp>,
    /// Whether operators have it in hand.
    pub maintenance: bool,
    /// Why.
    pub maintenance_reason: Option<String>,
    /// Fault that put it into maintenance.
    pub fault: Option<String>,
    /// Last error, cleared when the next operation starts.
    pub last_error: Option<String>,
    /// Whether a console is on.
    pub console_enabled: bool,
    /// Scheduling class.
    pub resource_class: Option<String>,
    /// When the running or last inspection started.
    pub inspection_started_at: Option<Timestamp>,
    /// When the last inspection ended.
    pub inspection_finished_at: Option<Timestamp>,
    /// Whether automated cleaning runs; none: the configuration decides.
    pub automated_clean: Option<bool>,
    /// Whether tear-down and rebuild are refused.
    pub protected: bool,
    /// Why.
    pub protected_reason: Option<String>,
    /// Owner's project.
    pub owner: Option<String>,
    /// Lessee's project.
    pub lessee: Option<String>,
    /// Free text.
    pub description: Option<String>,
    /// Whether it never becomes available again.
    pub retired: bool,
    /// Why.
    pub retired_reason: Option<String>,
    /// Static network data for the ramdisk.
    pub network_data: Map<String, Value>,
    /// Boot mode as read: `uefi` or `bios`.
    pub boot_mode: Option<String>,
    /// Secure boot as read.
    pub secure_boot: Option<bool>,
    /// Shard.
    pub shard: Option<String>,
    /// Parent node.
    pub parent_node: Option<String>,
    /// Whether power off is forbidden.
    pub disable_power_off: bool,
    /// Chassis.
    pub chassis_uuid: Option<Uuid>,
    /// Traits, sorted.
    pub traits: Vec<String>,
    /// Interface implementations by kind: `power` → `redfish`, … for all 13
    /// kinds of [`INTERFACE_KINDS`].
    pub interfaces: std::collections::BTreeMap<String, String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
}

/// The thirteen interfaces of a node, as in `<kind>_interface`.
pub const INTERFACE_KINDS: [&str; 13] = [
    "bios",
    "boot",
    "console",
    "deploy",
    "firmware",
    "inspect",
    "management",
    "network",
    "power",
    "raid",
    "rescue",
    "storage",
    "vendor",
];
