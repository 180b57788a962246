//! What the conductor tells the agent about an image (`image_info`).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;

use crate::secret::Secret;

/// Parameter `image_info` of the image commands. Field names are Ironic's;
/// unknown fields are ignored.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ImageInfo {
    /// Identifies the image in messages; a second write of the same id in one
    /// boot is skipped.
    #[serde(default)]
    pub id: String,
    /// Where the image is; tried in order.
    #[serde(default)]
    pub urls: Vec<String>,
    /// Declared format: `raw`, `qcow2`, `unknown`…
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_format: Option<String>,
    /// Declared container, `bare` as a rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_format: Option<String>,
    /// Name of the hash: `sha256`, `sha512`, `md5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_hash_algo: Option<String>,
    /// Hex digest of the image file, or a URL that gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_hash_value: Option<String>,
    /// Older form: hex digest (its kind told by its length) or a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// Whether a raw image may be streamed; ours streams always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_raw_images: Option<bool>,
    /// HTTP proxies by scheme.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub proxies: BTreeMap<String, String>,
    /// Hosts that are reached without a proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_proxy: Option<String>,
    /// `http_basic` or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_server_auth_strategy: Option<String>,
    /// User for the image server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_server_user: Option<String>,
    /// Password for the image server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_server_password: Option<Secret>,
    /// The node that the image is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_uuid: Option<String>,
    /// Boot mode of the deploy: `uefi` or `bios`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy_boot_mode: Option<String>,
}
