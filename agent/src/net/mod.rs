//! The network of the ramdisk: NICs, addresses, routes.

pub mod bring_up;
pub mod dhcp;
pub mod link;
pub mod lldp;
pub mod lockdown;
pub mod mac;
pub mod nic;
pub mod source;
