//! Machines made of QEMU.

pub mod command_line;
pub mod host_agent;
pub mod process;
pub mod qmp;

use std::path::PathBuf;

use serde::Serialize;

/// What the machine's firmware is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Firmware {
    /// OVMF.
    Uefi,
    /// SeaBIOS.
    Bios,
}

impl Firmware {
    /// The name in Ironic's `boot_mode` capability.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Uefi => "uefi",
            Self::Bios => "bios",
        }
    }
}

/// What the firmware tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootFrom {
    /// The firmware's own order: disk, then network, then CD.
    Default,
    /// Network first, then disk.
    Network,
    /// The disk and nothing else.
    Disk,
    /// The CD first, then disk.
    Cd,
}

/// Boot index of each device; `None` keeps the firmware from trying it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootIndexes {
    /// First disk; further disks follow it.
    pub disk: Option<i32>,
    /// NIC.
    pub nic: Option<i32>,
    /// CD drive.
    pub cd: Option<i32>,
}

impl BootFrom {
    /// The order as QEMU's `bootindex` properties. Disks may use 10 to 19.
    pub const fn indexes(self) -> BootIndexes {
        let disk = Some(10);
        match self {
            Self::Default => BootIndexes {
                disk,
                nic: Some(20),
                cd: Some(30),
            },
            Self::Network => BootIndexes {
                disk,
                nic: Some(1),
                cd: None,
            },
            Self::Disk => BootIndexes {
                disk,
                nic: None,
                cd: None,
            },
            Self::Cd => BootIndexes {
                disk,
                nic: None,
                cd: Some(1),
            },
        }
    }
}

/// A raw disk of a machine.
#[derive(Debug, Clone)]
pub struct Disk {
    /// The file.
    pub path: PathBuf,
    /// Serial number that the guest sees.
    pub serial: String,
}

/// What runs when the machine is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A virtual machine.
    Qemu,
    /// Network boot is the agent as a process on this host, restricted to
    /// the machine's disks; any other boot is a process that does nothing.
    /// For flows that need an agent and no machine: it is up in a second.
    HostAgent {
        /// The agent.
        program: PathBuf,
        /// Base URL of the conductor's boot scripts, which hold its parameters.
        scripts: String,
    },
}

/// What stays the same over the machine's power cycles.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Short name, used for files and the tap.
    pub name: String,
    /// What it really is.
    pub body: Body,
    /// System UUID.
    pub uuid: uuid::Uuid,
    /// MAC of its NIC.
    pub mac: String,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// CPUs.
    pub cpus: u32,
    /// Tap inside the namespace.
    pub tap: String,
    /// The wire to a switch, instead of the tap.
    pub wire: Option<crate::tagger::Wire>,
    /// Disks in order.
    pub disks: Vec<Disk>,
    /// Its folder in scratch: firmware variables, sockets, media.
    pub dir: PathBuf,
    /// Serial console log.
    pub serial_log: PathBuf,
    /// SeaBIOS' own log, and QEMU's messages beside it.
    pub firmware_log: PathBuf,
}
