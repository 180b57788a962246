//! The network of the ramdisk: NICs, addresses, routes.

pub mod advert;
pub mod bring_up;
pub mod data;
pub mod dhcp;
pub mod dhcp6;
pub mod given;
mod i40e;
pub mod ipv6;
pub mod link;
pub mod lldp;
pub mod lockdown;
pub mod mac;
pub mod nic;
pub mod resolv;
pub mod source;
pub mod vlan;
