//! An agent without Wrought's server: the harness plays an API of one node,
//! and commands go straight to the agent.

pub mod agent;
pub mod api;

pub use agent::Agent;
pub use api::Api;
pub use api::Beat;
