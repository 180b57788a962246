//! Talking to BMCs. So far: Redfish, by a client that knows the dozen resources
//! that provisioning needs and takes every one of their properties as optional.

pub mod redfish;
