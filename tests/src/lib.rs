//! The harness: machines, BMCs, networks, clients.
//!
//! A *world* ([`world::World`]) is one process in a network namespace of its
//! own with real parts: dnsmasq, QEMU machines, a Redfish BMC for each, an
//! image server with faults on demand, and `wrought serve`.

pub mod accel;
pub mod account;
pub mod apart;
pub mod api;
pub mod bare;
pub mod bench;
pub mod bmc;
pub mod child;
pub mod demo;
pub mod deploy;
pub mod disk;
pub mod dnsmasq;
pub mod first_beat;
pub mod fleet;
pub mod images;
pub mod initramfs;
pub mod kill;
pub mod lone;
pub mod netns;
pub mod paths;
pub mod peer;
pub mod postgres;
pub mod proxy;
pub mod qemu;
pub mod real_agent;
pub mod rundir;
pub mod runner;
pub mod running;
pub mod scenarios;
pub mod serial;
pub mod server;
pub mod sim;
pub mod tagger;
pub mod watch;
pub mod world;

/// Something this machine lacks: exit code 69, the text says what to do.
#[derive(Debug)]
pub struct Unavailable(pub String);

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

/// `bytes` random bytes as hexadecimal digits.
pub fn random_hex(bytes: usize) -> String {
    use std::fmt::Write;
    let mut raw = vec![0; bytes];
    // The operating system's generator does not fail once it is seeded.
    getrandom::fill(&mut raw).expect("the kernel gives random bytes");
    raw.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").ok();
        text
    })
}
