//! Software RAID: md arrays on partitions of the machine's disks, made by
//! mdadm, taken apart without it.
//!
//! What is to be stands in the node's `target_raid_config`, with Ironic's rules:
//! one or two volumes, the first a RAID-1, all with `"controller": "software"`.
//! In boot mode UEFI room is left at the start of each disk, where
//! `install_bootloader` puts an EFI system partition on every member.

mod assemble;
mod config;
mod create;
mod delete;
mod esp;
mod layout;

pub(crate) use assemble::assemble;
pub(crate) use assemble::root_volume;
pub(crate) use assemble::volume_names;
pub(crate) use config::Volume;
pub(crate) use create::create;
pub(crate) use delete::delete;
pub(crate) use esp::Bootable;
pub(crate) use esp::install as install_esps;
pub(crate) use layout::Label;

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::Map;
use serde_json::Value;

use crate::disk;
use crate::disk::Disk;
use crate::disk::DiskRules;
use crate::disk::Enumerator;
use crate::storage::Kernel;
use crate::storage::Tree;
use crate::tools::ToolError;
use crate::tools::Tools;

/// Why a RAID was not made or taken apart.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RaidError {
    /// What is to be cannot be.
    #[error("target_raid_config: {}", .0.join("; "))]
    Config(Vec<String>),
    /// The disks do not fit what is to be.
    #[error("software RAID: {0}")]
    Disks(String),
    /// A disk holds something already.
    #[error(
        "software RAID: {} has {found}; delete it first (raid.delete_configuration, \
         deploy.erase_devices_metadata) or ask for delete_existing", path.display()
    )]
    Taken {
        /// The disk.
        path: PathBuf,
        /// What it has.
        found: String,
    },
    /// A disk cannot be read or written.
    #[error("software RAID: prepare the disks")]
    Disk(#[from] disk::Error),
    /// mdadm is not there, or has failed.
    #[error("software RAID")]
    Tool(#[from] ToolError),
    /// Something stands on an array that cannot be taken down.
    #[error("software RAID: {}", .0.join("; "))]
    Busy(Vec<String>),
    /// What was made does not come up.
    #[error("software RAID: {0}")]
    NotReady(String),
}

/// What RAID work goes on with.
pub(crate) struct Site<'a> {
    /// Where the kernel's views are.
    pub(crate) enumerator: Enumerator,
    /// Who calls mdadm.
    pub(crate) tools: &'a dyn Tools,
    /// Who stops arrays.
    pub(crate) kernel: &'a dyn Kernel,
    /// Which disks and volumes must be left alone.
    pub(crate) rules: &'a DiskRules,
    /// Volumes that must be left alone, by name.
    pub(crate) keep: Vec<String>,
    /// Whether file systems that other machines may share stop the work.
    pub(crate) guard: bool,
    /// Set to stop.
    pub(crate) cancel: Arc<AtomicBool>,
}

impl Site<'_> {
    /// What stands on what.
    pub(crate) fn tree(&self) -> Tree {
        Tree::new(&self.enumerator.sys, &self.enumerator.dev)
    }

    /// The disks now.
    pub(crate) fn disks(&self) -> Vec<Disk> {
        self.enumerator.disks()
    }

    /// Whether a disk is none that arrays are made of: virtual media, and what
    /// is to be skipped.
    pub(crate) fn skips(&self, disk: &Disk) -> bool {
        disk.is_virtual_media() || self.rules.skips(disk)
    }
}

/// Names of RAID volumes in `skip_block_devices`.
pub(crate) fn kept_volumes(properties: &Map<String, Value>) -> Vec<String> {
    let entries = properties
        .get("skip_block_devices")
        .and_then(Value::as_array);
    entries
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.get("volume_name").and_then(Value::as_str))
        .map(str::to_owned)
        .collect()
}

/// Whether a name is an md array's.
pub(crate) fn is_array(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix("md")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
