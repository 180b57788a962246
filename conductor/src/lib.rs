//! The conductor: it brings machines from state to state.
//!
//! * [`machine`] is the provision state machine as data; `task` is the right to
//!   change one node, and the only writer of its state.
//! * `flows` are what is done between two states of rest, `steps` the pieces of
//!   deploying, cleaning and servicing, `plugins` the steps that operators bring.
//! * [`drivers`] compose what a node's interfaces name; [`agent`] talks to the
//!   ramdisk; [`boot`] serves what machines fetch while they boot it.
//! * `membership` tells which nodes are this conductor's, `takeover` goes on
//!   with those that were another's; `lease` and `line` are the lock.
//! * `watch`, `heartbeat` and `periodic` notice what happens outside; `pacer`
//!   and `stamps` keep that cheap with thousands of nodes; `startup` goes on
//!   with what an earlier life left behind.
//! * `workers` and `admission` bound what is done at the same time: what finds
//!   no place waits in a queue. `fast_track` uses a ramdisk that runs already.
//!
//! A conductor may be killed at any instruction: every step is begun and ended
//! in the journal, in the transaction that changes the node.

pub mod agent;
pub mod boot;
pub mod config;
pub mod drivers;
pub mod error;
pub mod machine;

mod admission;
mod allocations;
mod crypt;
mod fast_track;
mod flows;
mod hardware;
mod heartbeat;
mod inspection;
mod internal;
mod lease;
mod line;
mod logs;
mod membership;
mod nodes;
mod pacer;
mod periodic;
mod plugins;
mod power;
mod provision;
mod records;
mod relatives;
mod rpc;
mod service;
mod stamps;
mod startup;
mod steps;
mod takeover;
mod task;
mod token;
mod validate;
mod watch;
mod workers;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use config::Config;
pub use error::Error;
pub use service::CaIdentity;
pub use service::Service;
pub use steps::Kind;
pub use steps::Outcome;
pub use steps::Wait;
pub use task::Task;
