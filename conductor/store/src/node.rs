//! Nodes: the machines.

pub mod place;
pub mod query;

mod row;
mod table;

pub use place::Place;
pub use query::NodeBrief;

pub(crate) use table::find;
pub(crate) use table::save;

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
    /// Health of the hardware as read: `OK`, `Warning` or `Critical` (1.109).
    pub health: Option<String>,
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
    /// The allocation that has it; a node that is saved without loses it.
    pub allocation_uuid: Option<Uuid>,
    /// Host of the conductor that last took charge of it while it was in use.
    #[serde(default)]
    pub conductor_affinity: Option<String>,
    /// Interface implementations by kind: `power` → `redfish`, … for all 13
    /// kinds of [`INTERFACE_KINDS`].
    pub interfaces: std::collections::BTreeMap<String, String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
}

impl Node {
    /// A new node of a hardware type, in `enroll`, with nothing set.
    pub fn new(driver: impl Into<String>) -> Self {
        Self {
            uuid: Uuid::new_v4(),
            name: None,
            driver: driver.into(),
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
            health: None,
            shard: None,
            parent_node: None,
            disable_power_off: false,
            chassis_uuid: None,
            traits: Vec::new(),
            allocation_uuid: None,
            conductor_affinity: None,
            interfaces: std::collections::BTreeMap::new(),
            created_at: crate::codec::now(),
            updated_at: None,
        }
    }
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
