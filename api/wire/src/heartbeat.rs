//! `POST /v1/heartbeat/{node}`: the agent says that it lives and where.

use serde::Deserialize;
use serde::Serialize;

use crate::secret::Secret;

/// Body of a heartbeat. Which fields are required depends on the
/// microversion and is checked by the API.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Base URL of the agent's command API, such as `https://192.0.2.7:9999`.
    pub callback_url: String,
    /// The token from the lookup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_token: Option<Secret>,
    /// Version of the agent; `version` is accepted as well.
    #[serde(default, alias = "version", skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The agent's own certificate, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_verify_ca: Option<String>,
    /// `start`, `end` or `error`, from installers that are not our agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_status: Option<String>,
    /// Text beside `agent_status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_status_message: Option<String>,
}
