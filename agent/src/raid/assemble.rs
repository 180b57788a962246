//! Starting arrays that were made in another life of the ramdisk, and finding
//! the one that an image goes to.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;

use super::RaidError;
use super::Site;
use super::Volume;
use super::create::free_device;
use super::create::mdadm;
use crate::disk::Disk;
use crate::storage::Member;

/// Starts every array whose members are all there and that does not run yet.
/// One that lacks a member is left: the disk may just be late, and an array
/// that was started without it would have to be made whole again.
pub(crate) fn assemble(site: &Site<'_>) -> Result<(), RaidError> {
    let tree = site.tree();
    let mut sets: BTreeMap<Uuid, (Member, Vec<PathBuf>)> = BTreeMap::new();
    for disk in site.disks() {
        let real = disk.path == tree.node(&disk.name);
        if !real || super::is_array(&disk.path) || disk.is_virtual_media() {
            continue;
        }
        for name in tree.with_partitions(&disk.name) {
            if !tree.above(&name).is_empty() {
                continue;
            }
            let node = tree.node(&name);
            if let Some(member) = Member::of_device(&node).filter(|member| member.active) {
                let set = sets.entry(member.array);
                let (_, nodes) = set.or_insert_with(|| (member.clone(), Vec::new()));
                nodes.push(node);
            }
        }
    }
    for (member, mut nodes) in sets.into_values() {
        nodes.dedup();
        let wanted = usize::try_from(member.raid_disks).unwrap_or(usize::MAX);
        if nodes.len() < wanted {
            tracing::warn!(
                "array {:?} is not started: {} of its {wanted} members are there",
                member.name,
                nodes.len()
            );
            continue;
        }
        let by_name = format!("md{}", member.name);
        let numbered = member.name.parse::<u8>().is_ok();
        let device = match numbered && !site.enumerator.sys.join("block").join(&by_name).exists() {
            true => by_name,
            false => free_device(site),
        };
        let node = site.enumerator.dev.join(&device).display().to_string();
        let parts: Vec<String> = nodes
            .iter()
            .map(|node| node.display().to_string())
            .collect();
        let mut arguments = vec!["--assemble", node.as_str()];
        arguments.extend(parts.iter().map(String::as_str));
        mdadm(site, &arguments)?;
        tracing::info!("array {device} ({}) of {}", member.name, parts.join(", "));
    }
    Ok(())
}

/// The names of a configuration's volumes, and of the mirror of their EFI system
/// partitions.
pub(crate) fn volume_names(raid: &Map<String, Value>) -> Vec<String> {
    let mut volumes = Volume::list(raid).unwrap_or_default();
    volumes.sort_by_key(|volume| volume.gib.is_none());
    let names = volumes.into_iter().enumerate();
    let names = names.map(|(place, volume)| volume.name.unwrap_or_else(|| place.to_string()));
    names.chain([super::esp::NAME.to_owned()]).collect()
}

/// The name of the array that the operating system goes to, where the node's
/// software RAID names one.
fn root_name(raid: &Map<String, Value>) -> Option<String> {
    let mut volumes = Volume::list(raid).ok()?;
    volumes.sort_by_key(|volume| volume.gib.is_none());
    let place = volumes.iter().position(|volume| volume.root)?;
    let name = volumes[place].name.clone();
    Some(name.unwrap_or_else(|| place.to_string()))
}

/// The array that an image goes to, where the node's software RAID has a root
/// volume. An error when it has one that does not run.
pub(crate) fn root_volume(
    site: &Site<'_>,
    raid: &Map<String, Value>,
    disks: &[Disk],
) -> Result<Option<Disk>, RaidError> {
    let Some(name) = root_name(raid) else {
        return Ok(None);
    };
    let arrays = site.tree().arrays();
    let array = arrays.iter().find(|array| array.name() == Some(&name));
    let disk = array.and_then(|array| disks.iter().find(|disk| disk.name == array.device));
    match disk {
        Some(disk) => Ok(Some(disk.clone())),
        None => {
            let known: Vec<String> = arrays
                .iter()
                .map(|array| {
                    let level = array.level.as_deref().unwrap_or("not running");
                    format!(
                        "{} ({}, {level})",
                        array.device,
                        array.name().unwrap_or("?")
                    )
                })
                .collect();
            Err(RaidError::NotReady(format!(
                "the root volume {name:?} of the node's RAID is not there; arrays: {}",
                match known.is_empty() {
                    true => "none".to_owned(),
                    false => known.join(", "),
                }
            )))
        }
    }
}
