//! A Redfish BMC for each machine (DMTF DSP0266): its power, its boot
//! override and its virtual CD are those of a real QEMU.

pub mod auth;
pub mod machine;
pub mod media;
pub mod resources;
pub mod routes;
pub mod service;

pub use machine::Machine;
pub use service::Bmc;
