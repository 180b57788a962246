//! Talking to BMCs: [`redfish`], by a client that knows the dozen resources
//! that provisioning needs and takes every one of their properties as optional,
//! and [`ipmi`] over LAN, with the dozen commands that it needs.

pub mod ipmi;
pub mod redfish;

mod property;
