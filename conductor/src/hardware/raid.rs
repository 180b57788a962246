//! The RAID that is to be. The API has checked its shape.

use std::collections::BTreeMap;

use serde_json::Map;
use serde_json::Value;

use crate::drivers::catalog::HardwareType;
use crate::drivers::unsupported;
use crate::error::Error;
use crate::task::Task;

/// What a logical disk may say of itself.
const PROPERTIES: &[(&str, &str)] = &[
    (
        "raid_level",
        "RAID level: one of JBOD, 0, 1, 2, 5, 6, 1+0, 5+0 and 6+0. Required.",
    ),
    (
        "size_gb",
        "Size in GiB as a whole number, or MAX for all the space that is left. Required.",
    ),
    (
        "volume_name",
        "Name of the volume; without it one is made up. Optional.",
    ),
    (
        "is_root_volume",
        "Whether the operating system goes there; at most one volume's. False by default.",
    ),
    (
        "share_physical_disks",
        "Whether other volumes may lie on the same disks. False by default.",
    ),
    (
        "disk_type",
        "Kind of disk to use: hdd or ssd; without it any. Optional.",
    ),
    (
        "interface_type",
        "Interface of the disks to use: sata, scsi or sas; without it any. Optional.",
    ),
    (
        "number_of_physical_disks",
        "How many disks to use; without it as few as the level needs. Optional.",
    ),
    (
        "controller",
        "RAID controller to use; without it a fitting one. Optional.",
    ),
    (
        "physical_disks",
        "Disks to use, by name or by hints; without it fitting ones. Optional.",
    ),
];

/// Whether a RAID interface makes RAIDs at all.
fn makes_raids(interface: &str) -> bool {
    !interface.is_empty() && interface != "no-raid"
}

/// Stores it.
pub(super) async fn set(task: &mut Task, config: Map<String, Value>) -> Result<(), Error> {
    let interface = task.node.interfaces.get("raid").map_or("", String::as_str);
    if !makes_raids(interface) {
        return Err(unsupported(&task.node, "raid"));
    }
    task.node.target_raid_config = config;
    task.save().await
}

/// The properties with descriptions, where the driver's default makes RAIDs.
pub(super) fn properties(driver: &HardwareType) -> Result<BTreeMap<String, String>, Error> {
    if !makes_raids(driver.default("raid")) {
        return Err(Error::Unsupported {
            driver: driver.name.to_owned(),
            extension: "raid".to_owned(),
        });
    }
    let pairs = PROPERTIES.iter();
    Ok(pairs
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect())
}
