//! The agent's command API (port 9999): requests and results.

use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;

/// Body of `POST /v1/commands`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommandRequest {
    /// `extension.command`.
    pub name: String,
    /// Named parameters.
    pub params: Map<String, Value>,
}

/// Where a command stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandStatus {
    /// Still at work.
    #[serde(rename = "RUNNING")]
    Running,
    /// Ended well.
    #[serde(rename = "SUCCEEDED")]
    Succeeded,
    /// Ended with an error.
    #[serde(rename = "FAILED")]
    Failed,
    /// The step list belongs to another version of the hardware managers.
    #[serde(rename = "CLEAN_VERSION_MISMATCH")]
    VersionMismatch,
}

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandError {
    /// The class of error, such as `ImageChecksumError`.
    #[serde(rename = "type")]
    pub kind: String,
    /// An HTTP status that fits.
    pub code: u16,
    /// One sentence.
    pub message: String,
    /// The whole story: object, expected, actual.
    pub details: String,
}

/// One command and its result, as every command call answers it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommandResult {
    /// Identifies the command for `GET /v1/commands/{id}`.
    pub id: Uuid,
    /// The bare name, without the extension.
    pub command_name: String,
    /// Where it stands.
    pub command_status: CommandStatus,
    /// Set when it failed.
    pub command_error: Option<CommandError>,
    /// Set when it succeeded; while it runs, `{"progress": …}` (see
    /// [`crate::progress::Progress`]) or null.
    pub command_result: Option<Value>,
}

/// Answer of `GET /v1/commands`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommandList {
    /// All commands of this agent's life, oldest first.
    pub commands: Vec<CommandResult>,
}

/// Answer of `GET /v1/status`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentStatus {
    /// Seconds since the epoch.
    pub started_at: f64,
    /// Version of the agent.
    pub version: String,
}
