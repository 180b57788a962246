//! Commands: what the conductor may ask this agent to do.
//!
//! An extension (`standby`, `deploy`, …) adds its commands to a [`Registry`];
//! the [`Runner`] starts them one at a time and keeps their results; the HTTP
//! server only translates. A command is a function of a [`Context`] and its
//! parameters:
//!
//! ```
//! use serde_json::Value;
//! use wrought_agent::command::Args;
//! use wrought_agent::command::CommandFailure;
//! use wrought_agent::command::Context;
//! use wrought_agent::command::Mode;
//! use wrought_agent::command::Registry;
//!
//! fn hello(_context: &Context, args: Args) -> Result<Value, CommandFailure> {
//!     let name = args.get("name").and_then(Value::as_str);
//!     let name = name.ok_or_else(|| CommandFailure::invalid_params("hello needs a 'name'"))?;
//!     Ok(Value::String(format!("hello {name}")))
//! }
//!
//! let mut registry = Registry::default();
//! registry.blocking("demo.hello", Mode::Async, hello);
//! ```

mod context;
mod failure;
mod registry;
mod runner;
mod status;

pub use context::Agent;
pub use context::Context;
pub use context::HARDWARE_MANAGER;
pub use context::HARDWARE_MANAGER_VERSION;
pub use context::NodeCache;
pub use failure::CommandFailure;
pub use registry::Args;
pub use registry::Command;
pub use registry::Mode;
pub use registry::Outcome;
pub use registry::Registry;
pub use runner::Rejected;
pub use runner::Runner;
pub use status::CancelToken;
pub use status::ProgressSink;
