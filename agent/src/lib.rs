//! The agent that runs in the ramdisk: PID 1, network, lookup, heartbeats and
//! the command server, and the commands themselves.

pub mod boot;
pub mod command;
pub mod deploy;
pub mod disk;
pub mod net;
pub mod params;
pub mod shutdown;
