//! What the API may ask of a conductor: one trait. In one process it is called
//! directly; between processes each call is a JSON-RPC 2.0 request over HTTPS.
//!
//! * [`ring`] and [`members`] tell which conductor looks after a node, [`view`]
//!   keeps them as the database has them.
//! * [`Remote`] is the API's end: it implements the trait by sending each call
//!   to whom it concerns. [`server`] is the conductor's end. Both are made from
//!   one table of methods.
//! * [`tls`] lets nobody in but those with a certificate of the installation's
//!   own CA, at both ends.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_store::inventory::Inventory;
use wrought_store::node::Node;
use wrought_wire::heartbeat::Heartbeat;
use wrought_wire::secret::Secret;
use wrought_wire::state::BootDevice;
use wrought_wire::state::PowerTarget;
use wrought_wire::state::Verb;

pub mod caller;
pub mod error;
pub mod hardware;
pub mod members;
pub mod record;
pub mod ring;
pub mod server;
pub mod tls;
pub mod view;

mod jsonrpc;
mod methods;
mod remote;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use caller::Caller;
pub use error::Error;
pub use error::Kind;
pub use hardware::Hardware;
pub use hardware::Indicator;
pub use hardware::Media;
pub use hardware::MediaDevice;
pub use hardware::VendorCall;
pub use hardware::VendorMethod;
pub use hardware::Vif;
pub use record::Record;
pub use remote::Remote;

/// Outcome of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// `PUT …/states/provision`, checked for shape and version by the API.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProvisionRequest {
    /// The verb.
    pub verb: Verb,
    /// A config drive: URL, gzip+base64 text or an object.
    pub configdrive: Option<Value>,
    /// Steps given with `clean`.
    pub clean_steps: Option<Vec<Value>>,
    /// Steps given with `active` or `rebuild`.
    pub deploy_steps: Option<Vec<Value>>,
    /// Steps given with `service`.
    pub service_steps: Option<Vec<Value>>,
    /// Password given with `rescue`.
    pub rescue_password: Option<Secret>,
    /// Whether the ramdisk is not to be booted.
    pub disable_ramdisk: Option<bool>,
}

/// Whether one interface of a node is fit for use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// Fit or not; never null.
    pub result: Option<bool>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A hardware type with its interfaces.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Driver {
    /// Name, such as `redfish`.
    pub name: String,
    /// Hosts of conductors that have it.
    pub hosts: Vec<String>,
    /// Default implementation by interface kind.
    pub defaults: BTreeMap<String, String>,
    /// Enabled implementations by interface kind, default first.
    pub enabled: BTreeMap<String, Vec<String>>,
    /// `driver_info` properties with descriptions.
    pub properties: BTreeMap<String, String>,
}

/// Boot device as the BMC tells it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BootDeviceSetting {
    /// The device, when the BMC can tell.
    pub boot_device: Option<BootDevice>,
    /// Whether it holds for every boot.
    pub persistent: Option<bool>,
}

/// A node whose ramdisk has told what it found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Inspected {
    /// The node.
    pub node: Node,
    /// The `config` part of a lookup's answer.
    pub config: Map<String, Value>,
}

/// Calls that change a node take its exclusive lock; a short conflict waits
/// inside the conductor before [`Kind::NodeLocked`].
#[async_trait]
pub trait Conductor: Hardware {
    /// Figures about this conductor, in Prometheus' text form; empty where
    /// there are none.
    async fn metrics(&self) -> Result<String> {
        Ok(String::new())
    }
    /// Hardware types on offer.
    fn drivers(&self) -> Vec<Driver>;
    /// Host name of the conductor that looks after a node of that group and
    /// driver, as far as is known; none: nobody does. Asked for every node that
    /// is shown, so that it must cost little.
    fn owner(&self, group: &str, driver: &str, node: Uuid) -> Option<String>;
    /// Checks driver and interfaces (missing ones get the driver's default),
    /// stores the node, gives it back.
    async fn create_node(&self, node: Node) -> Result<Node>;
    /// Stores the named root fields of `node` (`driver_info`, `boot_interface`…)
    /// after checking them against the stored node. `updated_at` tells which
    /// version of the node was read; [`Kind::Stale`] when it is not the newest.
    async fn update_node(
        &self,
        node: Node,
        fields: Vec<String>,
        reset_interfaces: bool,
    ) -> Result<Node>;
    /// Deletes the node and all that belongs to it.
    async fn destroy_node(&self, node: Uuid) -> Result<()>;
    /// Switches maintenance on (with a reason) or off.
    async fn set_maintenance(&self, node: Uuid, on: bool, reason: Option<String>) -> Result<()>;
    /// Starts a power change; `timeout` in seconds.
    async fn change_power(
        &self,
        node: Uuid,
        target: PowerTarget,
        timeout: Option<u32>,
    ) -> Result<()>;
    /// Starts a provisioning operation.
    async fn provision(&self, node: Uuid, request: ProvisionRequest) -> Result<()>;
    /// Checks each interface of the node.
    async fn validate(&self, node: Uuid) -> Result<BTreeMap<String, Validation>>;
    /// Sets the boot device.
    async fn set_boot_device(&self, node: Uuid, device: BootDevice, persistent: bool)
    -> Result<()>;
    /// Reads the boot device.
    async fn boot_device(&self, node: Uuid) -> Result<BootDeviceSetting>;
    /// Boot devices that can be set.
    async fn supported_boot_devices(&self, node: Uuid) -> Result<Vec<BootDevice>>;
    /// Takes note of an agent's heartbeat and goes on with what waits for it.
    async fn heartbeat(&self, node: Uuid, heartbeat: Heartbeat) -> Result<()>;
    /// Answer of a lookup (`config` part filled, token handed out once).
    async fn lookup(&self, node: Uuid) -> Result<Map<String, Value>>;
    /// Stores a new record; gives it as it was stored.
    async fn create_record(&self, record: Record) -> Result<Record>;
    /// Stores a changed record; [`Kind::Stale`] as for a node.
    async fn update_record(&self, record: Record) -> Result<Record>;
    /// Deletes a record.
    async fn destroy_record(&self, record: Record) -> Result<()>;
    /// Takes what a ramdisk has found out about its machine and goes on with
    /// the inspection of the node, which is named, or known by what was found.
    async fn continue_inspection(&self, node: Option<Uuid>, found: Inventory) -> Result<Inspected>;
}
