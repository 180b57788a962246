//! Steps of deploying, cleaning and servicing.

use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;

/// One step with its metadata, as it stands in `driver_internal_info`, in the
/// agent's step lists and in requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The interface that runs it: `deploy`, `raid`, `management`…
    pub interface: String,
    /// Its name on that interface.
    pub step: String,
    /// Higher runs first; 0 is switched off.
    #[serde(default)]
    pub priority: i64,
    /// Named arguments.
    #[serde(default)]
    pub args: Map<String, Value>,
    /// Whether an abort may cut it short.
    #[serde(default)]
    pub abortable: bool,
    /// Whether the machine is restarted after it.
    #[serde(default)]
    pub reboot_requested: bool,
    /// Whether the ramdisk must be running.
    #[serde(default)]
    pub requires_ramdisk: bool,
    /// Description of the arguments, if it takes any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argsinfo: Option<Value>,
    /// Whether it may run again after its outcome was lost. False unless the
    /// step says so; real Ironic does not send it.
    #[serde(default)]
    pub repeatable: bool,
}
