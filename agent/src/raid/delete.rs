//! Taking arrays apart, and what half of them is left of others.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;

use super::RaidError;
use super::Site;
use crate::disk::Access;
use crate::disk::BlockFile;
use crate::disk::Disk;
use crate::disk::Uses;
use crate::disk::erase;
use crate::disk::probe::Region;
use crate::disk::table::Table;
use crate::storage::Fate;
use crate::storage::Member;
use crate::storage::Work;

/// Arrays may stand on arrays; what is left of one may show itself only when
/// another is gone.
const PASSES: u32 = 3;
/// Superblocks lie within so many bytes of either end.
const END: u64 = 1 << 20;

/// Deletes all arrays but those that are to be kept, and empties the disks that
/// they were made of.
pub(crate) fn delete(site: &Site<'_>) -> Result<(), RaidError> {
    let mut emptied: BTreeSet<String> = BTreeSet::new();
    for _ in 0..PASSES {
        emptied.extend(stop_all(site)?);
        let left = wipe_members(site, &mut emptied)?;
        if !left && site.tree().arrays().iter().all(|a| is_kept(site, a)) {
            return Ok(());
        }
    }
    let left: Vec<String> = site
        .tree()
        .arrays()
        .iter()
        .filter(|array| !is_kept(site, array))
        .map(|array| format!("array {} comes back after it was stopped", array.device))
        .collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(RaidError::Busy(left)),
    }
}

fn is_kept(site: &Site<'_>, array: &crate::storage::Array) -> bool {
    array.is_named(&site.keep)
        || site
            .disks()
            .iter()
            .any(|disk| disk.name == array.device && site.rules.skips(disk))
        // Of other disks than ours.
        || !site.enumerator.only.is_empty()
            && !array.members.iter().any(|member| {
                let tree = site.tree();
                let node = tree.node(&tree.whole(member));
                site.disks().iter().any(|disk| disk.path == node)
            })
}

/// Stops all arrays with what stands on them; gives the disks that they stood
/// on.
fn stop_all(site: &Site<'_>) -> Result<BTreeSet<String>, RaidError> {
    let tree = site.tree();
    let uses = Uses::read(&site.enumerator.proc, &site.enumerator.sys);
    let wipe = |node: &Path| erase::wipe_stacked(node, site.guard);
    let mut keep = site.keep.clone();
    let arrays = tree.arrays();
    let kept = arrays.iter().filter(|array| is_kept(site, array));
    keep.extend(kept.map(|array| array.device.clone()));
    let mut work = Work {
        tree: &tree,
        uses: &uses,
        kernel: site.kernel,
        keep: &keep,
        wipe: &wipe,
        ends: BTreeMap::new(),
        stopped: Vec::new(),
    };
    let mut below = BTreeSet::new();
    let mut problems = Vec::new();
    for array in &arrays {
        match work.one(&array.device) {
            Fate::Stopped => below.extend(array.members.iter().map(|member| tree.whole(member))),
            Fate::Kept | Fate::Disk => {}
            Fate::Failed(reason) => {
                if !problems.contains(&reason) {
                    problems.push(reason);
                }
            }
        }
    }
    match problems.is_empty() {
        true => Ok(below),
        false => Err(RaidError::Busy(problems)),
    }
}

/// Empties the disks that carried arrays, and those that carry members of
/// arrays that do not run. Gives whether there was any.
fn wipe_members(site: &Site<'_>, emptied: &mut BTreeSet<String>) -> Result<bool, RaidError> {
    let mut found = false;
    let mut problems = Vec::new();
    for disk in site.disks() {
        if super::is_array(&disk.path) || site.skips(&disk) || disk.read_only {
            continue;
        }
        let members = members_on(&disk);
        let carried = emptied.remove(&disk.name);
        if !carried && members.is_empty() {
            continue;
        }
        let kept = |member: &Member| site.keep.contains(&member.name);
        if members.iter().any(kept) || is_under_kept(site, &disk) {
            let path = disk.path.display();
            tracing::info!("{path} is left: a volume on it is to be kept");
            forget_others(site, &disk)?;
            continue;
        }
        if let Some(reason) = &disk.in_use {
            problems.push(format!("{} is {reason}", disk.path.display()));
            continue;
        }
        found = true;
        tracing::info!(
            "{} is emptied: it was part of an array",
            disk.path.display()
        );
        erase::wipe_disk(&disk, site.guard)?;
    }
    match problems.is_empty() {
        true => Ok(found),
        false => Err(RaidError::Busy(problems)),
    }
}

/// Beside a volume that is kept: the partitions of other arrays forget whose
/// they were.
fn forget_others(site: &Site<'_>, disk: &Disk) -> Result<(), RaidError> {
    let file = BlockFile::open(&disk.path, Access::Shared)?;
    let Some(table) = Table::read(&file).ok().flatten() else {
        return Ok(());
    };
    let tree = site.tree();
    for partition in &table.partitions {
        let region = partition.region(&file);
        let stays = Member::find(&region).is_none_or(|member| site.keep.contains(&member.name));
        let node = disk.partition_path(partition.number);
        let name = node.file_name().unwrap_or_default().to_string_lossy();
        if stays || !tree.above(&name).is_empty() {
            continue;
        }
        let end = partition.length.min(END);
        file.zero(partition.start, end)?;
        file.zero(partition.start + partition.length - end, end)?;
    }
    Ok(file.drop_cache()?)
}

fn is_under_kept(site: &Site<'_>, disk: &Disk) -> bool {
    let tree = site.tree();
    let above = tree.above(&disk.name);
    above
        .iter()
        .filter_map(|name| tree.array(name))
        .any(|array| is_kept(site, &array))
}

/// Superblocks of arrays on a disk and its partitions, as the table has them.
fn members_on(disk: &Disk) -> Vec<Member> {
    let Ok(file) = BlockFile::open(&disk.path, Access::Read) else {
        return Vec::new();
    };
    let table = Table::read(&file).ok().flatten();
    let parts = table.iter().flat_map(|table| &table.partitions);
    let regions = parts
        .map(|partition| partition.region(&file))
        .chain([Region::whole(&file)]);
    regions.filter_map(|region| Member::find(&region)).collect()
}
