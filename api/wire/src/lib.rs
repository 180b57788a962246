//! Wire types that both ends of Wrought share: the server and its clients, the
//! conductor and the agent. Plain data with serde; no I/O, no async.
//!
//! Names and shapes are OpenStack Ironic's, so that today's clients and agents
//! work unchanged.

pub mod command;
pub mod fault;
pub mod heartbeat;
pub mod hints;
pub mod image;
pub mod inspection;
pub mod lookup;
pub mod mac;
pub mod mask;
pub mod microversion;
pub mod progress;
pub mod secret;
pub mod state;
pub mod step;

/// The port on which the API listens when nothing else is said.
pub const API_PORT: u16 = 6385;
/// The port of the agent's command API.
pub const AGENT_PORT: u16 = 9999;
/// Header that carries the lock epoch of the conductor that sends a command;
/// the agent refuses a lower epoch than the highest it has seen. A real
/// ironic-python-agent ignores it.
pub const EPOCH_HEADER: &str = "x-wrought-lock-epoch";
