//! How disks are emptied.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use serde_json::Map;
use serde_json::Value;

use crate::disk::block::BlockFile;
use crate::disk::device::Disk;
use crate::disk::drive::Kernel;
use crate::disk::drive::Passthrough;
use crate::disk::error::Error;

type Open = dyn for<'a> Fn(&'a BlockFile) -> Box<dyn Passthrough + 'a> + Send + Sync;

/// Opens the command interface of a disk; tests put other drives there.
#[derive(Clone)]
pub(crate) struct Drives(pub(crate) Arc<Open>);

impl Default for Drives {
    fn default() -> Self {
        Self(Arc::new(|file| Box::new(Kernel(file))))
    }
}

impl fmt::Debug for Drives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Drives")
    }
}

/// How disks are emptied; from `driver_internal_info`, whose names are
/// Ironic's where Ironic has one.
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
    pub nvme: bool,
    /// Use the erase of ATA drives (`agent_enable_ata_secure_erase`).
    pub ata: bool,
    /// Use the erase of SCSI drives (`agent_enable_scsi_secure_erase`; ours).
    pub scsi: bool,
    /// Overwrite when a drive's own erase fails
    /// (`agent_continue_if_secure_erase_failed`, or its older name
    /// `agent_continue_if_ata_erase_failed`).
    pub overwrite_after_failure: bool,
    /// Passes of random data when a disk is overwritten
    /// (`agent_erase_devices_iterations`).
    pub random_passes: u32,
    /// A last pass of zeroes (`agent_erase_devices_zeroize`).
    pub zeroes: bool,
    /// Disks that belong to arrays which are kept: left alone.
    pub kept: Vec<PathBuf>,
    /// Disks on which something stands that could not be taken down.
    pub stuck: Vec<(PathBuf, String)>,
    /// Set to stop.
    pub cancel: Arc<AtomicBool>,
    pub(crate) drives: Drives,
}

impl Default for EraseOptions {
    fn default() -> Self {
        Self {
            concurrency: 1,
            guard: true,
            skip_read_only: false,
            nvme: true,
            ata: true,
            scsi: true,
            overwrite_after_failure: false,
            random_passes: 0,
            zeroes: true,
            kept: Vec::new(),
            stuck: Vec::new(),
            cancel: Arc::default(),
            drives: Drives::default(),
        }
    }
}

impl EraseOptions {
    /// Most disks that are erased at the same time.
    const MOST_AT_ONCE: u64 = 64;
    /// Most passes; whoever wants more has mistyped.
    const MOST_PASSES: u64 = 100;

    /// Options as the node's `driver_internal_info` has them.
    pub fn of_node(internal: &Map<String, Value>, cancel: Arc<AtomicBool>) -> Self {
        let given = |key: &str| internal.get(key).and_then(Value::as_bool);
        let flag = |key: &str, default| given(key).unwrap_or(default);
        let number = |key: &str| internal.get(key).and_then(Value::as_u64);
        let concurrency = number("disk_erasure_concurrency").unwrap_or(1);
        let concurrency = concurrency.clamp(1, Self::MOST_AT_ONCE);
        let passes = number("agent_erase_devices_iterations").unwrap_or(0);
        let zeroes = flag("agent_erase_devices_zeroize", true);
        // With neither passes nor zeroes nothing would be overwritten.
        let passes = passes.clamp(u64::from(!zeroes), Self::MOST_PASSES);
        Self {
            concurrency: usize::try_from(concurrency).unwrap_or(1),
            guard: flag("wipe_special_filesystems", true),
            skip_read_only: flag("agent_erase_skip_read_only", false),
            nvme: flag("agent_enable_nvme_secure_erase", true),
            ata: flag("agent_enable_ata_secure_erase", true),
            scsi: flag("agent_enable_scsi_secure_erase", true),
            overwrite_after_failure: given("agent_continue_if_secure_erase_failed")
                .or_else(|| given("agent_continue_if_ata_erase_failed"))
                .unwrap_or(false),
            random_passes: u32::try_from(passes).unwrap_or(1),
            zeroes,
            cancel,
            ..Self::default()
        }
    }

    pub(super) fn check_cancelled(&self, disk: &Disk) -> Result<(), Error> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled {
                path: disk.path.clone(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::EraseOptions;
    use serde_json::Value;
    use serde_json::json;

    fn options(internal: Value) -> EraseOptions {
        EraseOptions::of_node(internal.as_object().unwrap(), Default::default())
    }

    #[test]
    fn every_setting_of_ironic() {
        let set = options(json!({
            "disk_erasure_concurrency": 4,
            "wipe_special_filesystems": false,
            "agent_erase_skip_read_only": true,
            "agent_enable_nvme_secure_erase": false,
            "agent_enable_ata_secure_erase": false,
            "agent_continue_if_secure_erase_failed": true,
            "agent_erase_devices_iterations": 3,
            "agent_erase_devices_zeroize": false,
        }));
        assert_eq!((set.concurrency, set.random_passes), (4, 3));
        assert!(!set.guard && set.skip_read_only && !set.nvme && !set.ata && !set.zeroes);
        assert!(set.scsi && set.overwrite_after_failure);

        let none = options(json!({}));
        assert_eq!((none.concurrency, none.random_passes), (1, 0));
        assert!(none.guard && !none.skip_read_only && none.nvme && none.ata && none.zeroes);
        assert!(!none.overwrite_after_failure);
    }

    #[test]
    fn the_older_name_counts_when_the_newer_is_absent() {
        let old = "agent_continue_if_ata_erase_failed";
        assert!(options(json!({old: true})).overwrite_after_failure);
        let both = json!({old: true, "agent_continue_if_secure_erase_failed": false});
        assert!(!options(both).overwrite_after_failure);
    }

    #[test]
    fn something_is_always_overwritten() {
        let neither = json!({
            "agent_erase_devices_iterations": 0,
            "agent_erase_devices_zeroize": false,
        });
        assert_eq!(options(neither).random_passes, 1);
        let wild = json!({"disk_erasure_concurrency": 1_000_000, "agent_erase_devices_iterations": 1_000_000});
        let wild = options(wild);
        assert_eq!((wild.concurrency, wild.random_passes), (64, 100));
    }
}
