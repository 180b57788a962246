//! `GET /v1/lookup`: the agent finds out who it is.

use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;

use crate::secret::Secret;

/// Answer of a lookup.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LookupAnswer {
    /// The node that has the given addresses.
    pub node: LookupNode,
    /// What the agent is to work with.
    pub config: LookupConfig,
}

/// The part of a node that the agent is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LookupNode {
    /// Who the agent is.
    pub uuid: Uuid,
    /// Properties, among them `root_device` hints.
    #[serde(default)]
    pub properties: Map<String, Value>,
    /// Instance data, secrets masked.
    #[serde(default)]
    pub instance_info: Map<String, Value>,
    /// Internal data, secrets masked.
    #[serde(default)]
    pub driver_internal_info: Map<String, Value>,
    /// Links to the node.
    #[serde(default)]
    pub links: Value,
}

/// Settings for the agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LookupConfig {
    /// Seconds of silence after which the agent counts as lost (300).
    pub heartbeat_timeout: u64,
    /// The token, handed out once; `******` afterwards.
    #[serde(default)]
    pub agent_token: Option<Secret>,
    /// Whether the token must be sent. Always true.
    #[serde(default)]
    pub agent_token_required: bool,
    /// Whether md5 checksums are allowed.
    #[serde(default)]
    pub agent_md5_checksum_enable: Option<bool>,
    /// Whether images are not looked into before use.
    #[serde(default)]
    pub disable_deep_image_inspection: Option<bool>,
    /// Formats that may be written.
    #[serde(default)]
    pub permitted_image_formats: Option<Vec<String>>,
    /// All that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}
