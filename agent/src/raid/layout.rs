//! Which part of which disk belongs to which volume.

use std::path::Path;

use serde_json::Map;
use serde_json::Value;

use super::RaidError;
use super::config::Volume;
use crate::disk::Disk;
use crate::disk::GIB;
use crate::disk::listing;

const MIB: u64 = 1 << 20;
/// Room for an EFI system partition of 550 MiB.
const UEFI_START: u64 = 551 * MIB;
/// Room for a BIOS boot partition.
const BIOS_GPT_START: u64 = 8 * MIB;
const MSDOS_START: u64 = MIB;
/// The end of what an MBR can tell, with sectors of 512 bytes.
const MSDOS_END: u64 = (1 << 32) * 512 - MIB;

/// The partition table of the disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    /// For UEFI.
    GptUefi,
    /// For BIOS, when it is asked for.
    GptBios,
    Msdos,
}

impl Label {
    /// What a node's boot mode and `disk_label` ask for; without a boot mode
    /// the one that this machine was started in.
    pub(crate) fn of_node(
        properties: &Map<String, Value>,
        instance_info: &Map<String, Value>,
        internal: &Map<String, Value>,
        sys: &Path,
    ) -> Self {
        let capability = |key: &str| {
            [instance_info, properties]
                .into_iter()
                .find_map(|map| capability(map.get("capabilities")?, key))
        };
        let text = |map: &Map<String, Value>| {
            let mode = map.get("deploy_boot_mode").and_then(Value::as_str);
            mode.map(str::to_owned)
        };
        let mode = capability("boot_mode")
            .or_else(|| text(instance_info))
            .or_else(|| text(internal));
        let uefi = match mode.as_deref() {
            Some("uefi") => true,
            Some("bios") => false,
            _ => sys.join("firmware/efi").is_dir(),
        };
        match (uefi, capability("disk_label").as_deref()) {
            (true, _) => Self::GptUefi,
            (false, Some("gpt")) => Self::GptBios,
            (false, _) => Self::Msdos,
        }
    }

    fn start(self) -> u64 {
        match self {
            Self::GptUefi => UEFI_START,
            Self::GptBios => BIOS_GPT_START,
            Self::Msdos => MSDOS_START,
        }
    }

    /// The end of what partitions can cover.
    fn end(self, disk: &Disk) -> u64 {
        // A GPT's backup takes less than a MiB.
        let end = disk.size.saturating_sub(MIB);
        match self {
            Self::Msdos => end.min(MSDOS_END),
            Self::GptUefi | Self::GptBios => end,
        }
    }
}

/// `key:value,…`, or an object.
fn capability(capabilities: &Value, key: &str) -> Option<String> {
    match capabilities {
        Value::Object(map) => map.get(key)?.as_str().map(str::to_owned),
        Value::String(text) => text.split(',').find_map(|pair| {
            let (name, value) = pair.split_once(':')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        }),
        _ => None,
    }
}

/// A partition that is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slice {
    /// Place of the disk in the list of disks.
    pub(crate) disk: usize,
    /// First byte.
    pub(crate) start: u64,
    /// Length in bytes.
    pub(crate) length: u64,
}

/// A volume with the parts that it is made of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Planned {
    /// What it is to be.
    pub(crate) volume: Volume,
    /// Its name in the superblocks.
    pub(crate) name: String,
    /// Its parts, one on each of its disks.
    pub(crate) slices: Vec<Slice>,
}

/// Lays the volumes out, the one that takes all that is left last. `free` are
/// the disks that may be taken.
pub(crate) fn plan(
    volumes: &[Volume],
    disks: &[Disk],
    free: &[usize],
    label: Label,
) -> Result<Vec<Planned>, RaidError> {
    let mut order: Vec<&Volume> = volumes.iter().collect();
    order.sort_by_key(|volume| volume.gib.is_none());
    let mut next: Vec<u64> = disks.iter().map(|_| label.start()).collect();
    let mut planned = Vec::new();
    for (index, volume) in order.into_iter().enumerate() {
        let name = volume.name.clone().unwrap_or_else(|| index.to_string());
        let members = members(volume, &name, disks, free)?;
        let share = volume
            .gib
            .map(|gib| volume.level.share(gib * GIB, members.len()))
            .map(|share| share.next_multiple_of(MIB));
        let mut slices = Vec::new();
        for disk in members {
            let start = next[disk];
            let left = label.end(&disks[disk]).saturating_sub(start) / MIB * MIB;
            let length = share.unwrap_or(left);
            if length > left || length == 0 {
                return Err(RaidError::Disks(format!(
                    "volume {name} needs {} MiB of {}, which has {} MiB left",
                    share.unwrap_or(MIB) / MIB,
                    disks[disk].path.display(),
                    left / MIB
                )));
            }
            next[disk] = start + length;
            slices.push(Slice {
                disk,
                start,
                length,
            });
        }
        planned.push(Planned {
            volume: volume.clone(),
            name,
            slices,
        });
    }
    Ok(planned)
}

/// The disks of a volume: those that its hints mean, each once, or all.
fn members(
    volume: &Volume,
    name: &str,
    disks: &[Disk],
    free: &[usize],
) -> Result<Vec<usize>, RaidError> {
    let mut members = Vec::new();
    if volume.disks.is_empty() {
        members = free.to_vec();
    }
    for hints in &volume.disks {
        let found = free
            .iter()
            .find(|&&disk| !members.contains(&disk) && hints.matches(&disks[disk]));
        let Some(disk) = found else {
            return Err(RaidError::Disks(format!(
                "no free disk is left for volume {name} that matches ({hints}); {}",
                listing(disks)
            )));
        };
        members.push(*disk);
    }
    let least = volume.level.least();
    if members.len() < least {
        return Err(RaidError::Disks(format!(
            "volume {name} needs at least {least} disks for RAID level {}, found {}; {}",
            volume.level.mdadm(),
            members.len(),
            listing(disks)
        )));
    }
    Ok(members)
}
