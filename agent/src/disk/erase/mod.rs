//! Emptying disks: of what makes them look used, or of everything.
//!
//! Every disk is tried, whatever happens to the others; each is reported
//! with what was achieved, and all failures end in one error.

mod full;
mod guard;
mod metadata;
mod nvme;
mod pool;
mod report;

pub use report::DiskOutcome;
pub use report::EraseError;
pub use report::EraseReport;
pub use report::Method;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use serde_json::Map;
use serde_json::Value;
use wrought_wire::progress::Progress;

use crate::disk::device::Disk;
use crate::disk::error::Error;
use crate::disk::select::DiskRules;
use report::collect;

/// How disks are emptied; from `driver_internal_info`.
#[derive(Debug, Clone)]
pub struct EraseOptions {
    /// Disks at work at the same time (`disk_erasure_concurrency`).
    pub concurrency: usize,
    /// Refuse disks with file systems that other machines may share
    /// (anything but `wipe_special_filesystems: false`).
    pub guard: bool,
    /// Leave read-only disks out of a full erase
    /// (`agent_erase_skip_read_only`).
    pub skip_read_only: bool,
    /// Use the erase of NVMe drives (`agent_enable_nvme_secure_erase`).
    pub nvme_format: bool,
    /// Overwrite when a drive's own erase fails
    /// (`agent_continue_if_secure_erase_failed`).
    pub overwrite_after_failure: bool,
    /// `/sys`
    pub sys: PathBuf,
    /// Set to stop.
    pub cancel: Arc<AtomicBool>,
}

impl Default for EraseOptions {
    fn default() -> Self {
        Self {
            concurrency: 1,
            guard: true,
            skip_read_only: false,
            nvme_format: true,
            overwrite_after_failure: false,
            sys: PathBuf::from("/sys"),
            cancel: Arc::default(),
        }
    }
}

impl EraseOptions {
    /// Most disks that are erased at the same time.
    const MOST_AT_ONCE: u64 = 64;

    /// Options as the node's `driver_internal_info` has them.
    pub fn of_node(internal: &Map<String, Value>, cancel: Arc<AtomicBool>) -> Self {
        let flag = |key: &str, default| {
            internal
                .get(key)
                .and_then(Value::as_bool)
                .unwrap_or(default)
        };
        let concurrency = internal
            .get("disk_erasure_concurrency")
            .and_then(Value::as_u64);
        let concurrency = concurrency.unwrap_or(1).clamp(1, Self::MOST_AT_ONCE);
        let default = Self::default();
        Self {
            concurrency: usize::try_from(concurrency).unwrap_or(1),
            guard: flag("wipe_special_filesystems", true),
            skip_read_only: flag("agent_erase_skip_read_only", false),
            nvme_format: flag("agent_enable_nvme_secure_erase", true),
            overwrite_after_failure: flag("agent_continue_if_secure_erase_failed", false),
            cancel,
            ..default
        }
    }

    fn check_cancelled(&self, disk: &Disk) -> Result<(), Error> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled {
                path: disk.path.clone(),
            });
        }
        Ok(())
    }
}

/// Receives progress; called from several threads.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) + Sync);

/// What is to be done with a disk before anything is tried.
fn preset(disk: &Disk, rules: &DiskRules) -> Option<Result<Method, Error>> {
    if rules.skips(disk) {
        return Some(Ok(Method::Skipped("listed in skip_block_devices")));
    }
    if disk.is_virtual_media() {
        return Some(Ok(Method::Skipped("virtual media")));
    }
    let reason = disk.in_use.clone()?;
    Some(Err(Error::InUse {
        path: disk.path.clone(),
        reason,
    }))
}

/// Wipes one disk: what is in its partitions first, then the disk.
pub fn wipe_disk(disk: &Disk, guard: bool) -> Result<(), Error> {
    metadata::wipe(disk, guard).map(drop)
}

/// The same for any block device, such as a RAID array or a logical volume,
/// before it is stopped.
pub fn wipe_stacked(path: &std::path::Path, guard: bool) -> Result<(), Error> {
    let disk = Disk {
        path: path.to_owned(),
        ..Disk::default()
    };
    wipe_disk(&disk, guard)
}

/// Takes everything off the disks that a machine could recognise: superblocks
/// of the disks and of their partitions, the first and last MiB, tables.
pub fn erase_metadata(
    disks: &[Disk],
    rules: &DiskRules,
    options: &EraseOptions,
    progress: OnProgress<'_>,
) -> Result<EraseReport, EraseError> {
    let steps = pool::Steps::new("erase_devices_metadata", disks.len(), progress);
    // Last names first, as Ironic does it: a md array before its members.
    let order: Vec<&Disk> = disks.iter().rev().collect();
    let outcomes = pool::run(&order, options.concurrency, |disk| {
        let result = preset(disk, rules).unwrap_or_else(|| {
            options.check_cancelled(disk)?;
            if disk.read_only {
                return Ok(Method::Skipped("read-only"));
            }
            metadata::wipe(disk, options.guard)
        });
        steps.done_one();
        result
    });
    collect(&order, outcomes)
}

/// Overwrites the disks, or lets them erase themselves.
pub fn erase_all(
    disks: &[Disk],
    rules: &DiskRules,
    options: &EraseOptions,
    progress: OnProgress<'_>,
) -> Result<EraseReport, EraseError> {
    let order: Vec<&Disk> = disks.iter().rev().collect();
    let counter = pool::Bytes::new(
        "erase_devices",
        order.iter().map(|disk| disk.size).sum(),
        progress,
    );
    let outcomes = pool::run(&order, options.concurrency, |disk| {
        let before = |result| {
            counter.add(disk.size);
            result
        };
        if let Some(result) = preset(disk, rules) {
            return before(result);
        }
        if disk.read_only {
            return before(if options.skip_read_only {
                Ok(Method::Skipped("read-only"))
            } else {
                let cause = std::io::Error::from(std::io::ErrorKind::ReadOnlyFilesystem);
                Err(Error::io("erase read-only", &disk.path, cause))
            });
        }
        full::erase(disk, options, &counter)
    });
    collect(&order, outcomes)
}

#[cfg(test)]
mod tests;
