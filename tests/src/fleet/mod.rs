//! Agents by the ten thousand, for measurements: what a conductor sees of a
//! machine that sits in its ramdisk, without the machine. Those that do what a
//! conductor asks are in [`crate::sim`].
//!
//! An [`Agent`] came to its token the real way: its node was created, managed
//! and provided through the API, looked itself up, called in, and was given a
//! cleaning step that runs for ever. [`commands`] is the side that conductors
//! call back; [`join`] takes nodes through all of it, against our server or a
//! real Ironic; [`copies`] multiplies such a node in a stopped server's
//! database; [`beats`] keeps a fleet calling.

pub mod beats;
pub mod commands;
pub mod copies;
pub mod join;
pub mod tls;

use serde_json::Value;
use serde_json::json;

/// What the agents say that they are.
const VERSION: &str = "11.0.0";

/// One simulated agent.
#[derive(Debug, Clone)]
pub struct Agent {
    /// UUID of its node.
    pub node: String,
    /// The token that it was handed out.
    pub token: String,
    /// Where the conductor reaches it.
    pub url: String,
    /// Its certificate, PEM, when it is reached by https.
    pub certificate: Option<String>,
}

impl Agent {
    /// The body of its heartbeat.
    pub fn heartbeat(&self) -> Value {
        let mut body = json!({
            "callback_url": self.url,
            "agent_token": self.token,
            "agent_version": VERSION,
        });
        if let (Some(pem), Some(body)) = (&self.certificate, body.as_object_mut()) {
            body.insert("agent_verify_ca".to_owned(), pem.as_str().into());
        }
        body
    }

    /// Its path in the API.
    pub fn path(&self) -> String {
        format!("/v1/heartbeat/{}", self.node)
    }
}
