//! The network of the ramdisk: NICs, addresses, routes.

pub mod mac;
pub mod nic;
pub mod source;
