//! The agent that runs in the ramdisk: PID 1, network, lookup, heartbeats and
//! the command server, and the commands themselves.

pub mod api;
pub mod boot;
mod burnin;
pub mod cli;
pub mod clock;
pub mod command;
pub mod deploy;
pub mod disk;
pub mod ext;
mod firmware;
pub mod init;
pub mod inspection;
pub mod inventory;
pub mod logging;
mod managers;
pub mod net;
pub mod params;
mod raid;
pub mod run;
pub mod server;
pub mod shutdown;
pub mod storage;
pub mod system;
pub mod tls;
mod tools;
