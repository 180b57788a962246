//! What the API may ask about a node's hardware beyond power and provisioning.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_wire::secret::Secret;
use wrought_wire::state::BootMode;
use wrought_wire::state::IndicatorState;
use wrought_wire::state::MediaKind;

use crate::Result;

/// A virtual interface that is attached to a node: a network's end that one of
/// the node's ports or portgroups carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vif {
    /// Its id, any text.
    pub id: String,
    /// The port that is to carry it; none: a free one.
    pub port: Option<Uuid>,
    /// The portgroup that is to carry it; none: a free one.
    pub portgroup: Option<Uuid>,
}

/// A light on the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Indicator {
    /// Part of the machine that it belongs to: `system`, `chassis`…
    pub component: String,
    /// Its name among those of the component.
    pub name: String,
    /// Whether it cannot be set.
    pub readonly: bool,
    /// States that it can have.
    pub states: Vec<IndicatorState>,
}

/// An image for a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// What it appears as.
    pub kind: MediaKind,
    /// Where the BMC fetches it; may hold a password.
    pub url: Secret,
}

/// A device that images can be put into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaDevice {
    /// Kinds of media that it takes, in the BMC's words, such as `CD`.
    pub media_types: Vec<String>,
    /// Whether something is in it.
    pub inserted: bool,
    /// The image, in the BMC's words.
    pub image: Option<String>,
}

/// A method that only one maker's driver has. Field names are the API's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VendorMethod {
    /// HTTP methods by which it may be called.
    pub http_methods: Vec<String>,
    /// Whether it runs after the answer to its call.
    #[serde(rename = "async")]
    pub is_async: bool,
    /// What it does.
    pub description: String,
    /// Whether its answer is a file; never so far.
    pub attach: bool,
    /// Whether nobody else may work on the node meanwhile.
    pub require_exclusive_lock: bool,
}

/// A call of a vendor method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VendorCall {
    /// The HTTP method, upper case.
    pub http_method: String,
    /// The vendor method.
    pub method: String,
    /// Its parameters.
    pub parameters: Map<String, Value>,
}

/// Calls that change something take the node's lock, as those of
/// [`crate::Conductor`] do. What a driver cannot do is
/// [`crate::Kind::Unsupported`].
#[async_trait]
pub trait Hardware: Send + Sync {
    /// Stores the RAID that is to be; empty: none.
    async fn set_target_raid(&self, node: Uuid, config: Map<String, Value>) -> Result<()>;
    /// What a logical disk may say of itself, with descriptions.
    async fn raid_properties(&self, driver: &str) -> Result<BTreeMap<String, String>>;
    /// Starts a change of the boot mode.
    async fn change_boot_mode(&self, node: Uuid, mode: BootMode) -> Result<()>;
    /// Starts a change of secure boot.
    async fn change_secure_boot(&self, node: Uuid, on: bool) -> Result<()>;
    /// Sends a non-maskable interrupt.
    async fn inject_nmi(&self, node: Uuid) -> Result<()>;
    /// The node's indicators.
    async fn indicators(&self, node: Uuid) -> Result<Vec<Indicator>>;
    /// The state of one.
    async fn indicator(&self, node: Uuid, component: &str, name: &str) -> Result<IndicatorState>;
    /// Sets one.
    async fn set_indicator(
        &self,
        node: Uuid,
        component: &str,
        name: &str,
        state: IndicatorState,
    ) -> Result<()>;
    /// How the node's console is reached; none: it is off.
    async fn console(&self, node: Uuid) -> Result<Option<Value>>;
    /// Starts switching the console on or off.
    async fn set_console(&self, node: Uuid, on: bool) -> Result<()>;
    /// Ids of the virtual interfaces.
    async fn vifs(&self, node: Uuid) -> Result<Vec<String>>;
    /// Attaches one.
    async fn attach_vif(&self, node: Uuid, vif: Vif) -> Result<()>;
    /// Detaches one.
    async fn detach_vif(&self, node: Uuid, id: &str) -> Result<()>;
    /// Devices for virtual media.
    async fn media(&self, node: Uuid) -> Result<Vec<MediaDevice>>;
    /// Starts putting an image into one.
    async fn attach_media(&self, node: Uuid, media: Media) -> Result<()>;
    /// Starts taking images out of the devices of these kinds; empty: of all.
    async fn detach_media(&self, node: Uuid, kinds: Vec<MediaKind>) -> Result<()>;
    /// Vendor methods of the node's driver.
    async fn vendor_methods(&self, node: Uuid) -> Result<BTreeMap<String, VendorMethod>>;
    /// Calls one; none: it runs in the background.
    async fn vendor_call(&self, node: Uuid, call: VendorCall) -> Result<Option<Value>>;
    /// Vendor methods of a driver that need no node.
    async fn driver_vendor_methods(&self, driver: &str) -> Result<BTreeMap<String, VendorMethod>>;
    /// Calls one; none: it runs in the background.
    async fn driver_vendor_call(&self, driver: &str, call: VendorCall) -> Result<Option<Value>>;
}
