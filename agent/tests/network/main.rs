//! The network matrix of the ramdisk, each case in namespaces of its own that
//! die with the test: veth pairs lead from the machine's namespace to another in
//! which dnsmasq serves. Skipped, with a line that says so, where the host lacks
//! something. VLANs and bonds need a kernel that has them; virtual machines show
//! them.

#![allow(clippy::unwrap_used, reason = "helpers of tests, not only tests")]

mod asked;
mod client;
mod given;
mod image;
mod leases;
mod outside;
