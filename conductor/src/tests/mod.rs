//! Whole flows against doubles: a machine with its BMC, and an agent that
//! speaks the real protocol.

mod admission;
mod adopt;
mod agent;
mod allocations;
mod artefacts;
mod crash;
mod fast_track;
mod fleet;
mod hardware;
mod heartbeats;
mod inspection;
mod inspection_hooks;
mod lease;
mod life;
mod locking;
mod lost_agent;
mod machine;
mod maintenance;
mod many;
mod periodic;
mod pinned;
mod ramdisk_logs;
mod records;
mod relatives;
mod requests;
mod rescue;
pub(crate) mod rig;
mod service;
mod step_lists;
mod step_plugins;
mod steps;
mod tear_down;
mod verbs;
