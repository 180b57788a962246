//! Making the arrays.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_formats::gpt::Gpt;
use wrought_formats::gpt::NewPartition;
use wrought_formats::gpt::TYPE_LINUX_RAID;
use wrought_formats::mbr::Mbr;

use super::RaidError;
use super::Site;
use super::Volume;
use super::delete;
use super::layout::Label;
use super::layout::Planned;
use super::layout::plan;
use crate::command::ProgressSink;
use crate::disk::Access;
use crate::disk::BlockFile;
use crate::disk::Disk;
use crate::disk::erase;
use crate::disk::probe;
use crate::disk::probe::Region;
use crate::disk::sysfs;
use crate::disk::table::ALIGNMENT;
use crate::disk::table::Table;
use crate::tools::Call;

const MIB: u64 = 1 << 20;
/// Type byte of a Linux RAID partition in an MBR.
const MBR_RAID: u8 = 0xfd;
/// How long nodes of new partitions and arrays may take to come up.
const READY: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(100);
/// How long mdadm may take.
const MDADM: Duration = Duration::from_secs(600);
/// How long an array that lost a member while it was made may take to get it
/// back.
const RECOVERY: Duration = Duration::from_secs(24 * 3600);

/// Makes the arrays of a configuration; gives the configuration back, which is
/// what the node then has.
pub(crate) fn create(
    site: &Site<'_>,
    config: &Map<String, Value>,
    label: Label,
    delete_existing: bool,
    progress: &ProgressSink,
) -> Result<Value, RaidError> {
    let volumes = Volume::list(config)?;
    if delete_existing {
        progress.stage("raid.delete_configuration");
        delete(site)?;
    }
    progress.stage("raid.create_configuration");
    let disks = site.disks();
    let free: Vec<usize> = (0..disks.len())
        .filter(|&disk| is_free(site, &disks[disk]))
        .collect();
    let planned = plan(&volumes, &disks, &free, label)?;
    // All of them are looked at before the first is changed.
    let mut used: Vec<usize> = planned
        .iter()
        .flat_map(|planned| planned.slices.iter().map(|slice| slice.disk))
        .collect();
    used.sort_unstable();
    used.dedup();
    for &disk in &used {
        check_empty(&disks[disk])?;
    }
    let mut numbers = vec![0; planned.len() * disks.len()];
    for &disk in &used {
        let on_disk: Vec<(usize, &Planned)> = planned.iter().enumerate().collect();
        partition(&disks[disk], disk, &on_disk, label, |volume, number| {
            numbers[volume * disks.len() + disk] = number;
        })?;
    }
    for (index, volume) in planned.iter().enumerate() {
        let parts: Vec<String> = volume
            .slices
            .iter()
            .map(|slice| {
                let number = numbers[index * disks.len() + slice.disk];
                let path = disks[slice.disk].partition_path(number);
                path.display().to_string()
            })
            .collect();
        make(site, volume, &parts)?;
    }
    Ok(Value::Object(config.clone()))
}

/// Disks that arrays may be made of: no arrays, and nothing that is used.
fn is_free(site: &Site<'_>, disk: &Disk) -> bool {
    !super::is_array(&disk.path) && !disk.read_only && disk.in_use.is_none() && !site.skips(disk)
}

/// Refuses a disk with partitions, or that belongs to an array by itself.
fn check_empty(disk: &Disk) -> Result<(), RaidError> {
    let file = BlockFile::open(&disk.path, Access::Exclusive)?;
    let taken = |found: String| {
        Err(RaidError::Taken {
            path: disk.path.clone(),
            found,
        })
    };
    // A table that cannot be read is a table.
    match Table::read(&file) {
        Ok(Some(table)) if !table.partitions.is_empty() => return taken(table.listing()),
        Err(error) => return taken(error.to_string()),
        Ok(_) => {}
    }
    let member: Vec<_> = Region::whole(&file)
        .signatures()?
        .into_iter()
        .filter(|found| found.kind == "linux_raid_member")
        .collect();
    match member.is_empty() {
        true => Ok(()),
        false => taken(probe::listing(&member)),
    }
}

/// Writes a new table with the parts of all volumes; `tell` gets the number of
/// each volume's partition.
fn partition(
    disk: &Disk,
    place: usize,
    planned: &[(usize, &Planned)],
    label: Label,
    mut tell: impl FnMut(usize, u32),
) -> Result<(), RaidError> {
    let file = BlockFile::open(&disk.path, Access::Exclusive)?;
    let sector = u64::from(file.logical_sector());
    let sectors = file.size() / sector;
    let fails = |detail: String| {
        RaidError::Disk(crate::disk::Error::Table {
            path: disk.path.clone(),
            detail,
        })
    };
    // Whatever was at either end is no more.
    file.zero(0, MIB)?;
    file.zero((file.size() - MIB) / sector * sector, MIB)?;
    let slices = planned.iter().flat_map(|(index, planned)| {
        let of_disk = planned.slices.iter().filter(|slice| slice.disk == place);
        of_disk.map(move |slice| (*index, planned.name.as_str(), slice))
    });
    let mut written = Vec::new();
    match label {
        Label::GptUefi | Label::GptBios => {
            let gpt = Gpt::new(file.logical_sector(), sectors, Uuid::new_v4());
            let mut gpt = gpt.map_err(|error| fails(error.to_string()))?;
            for (index, name, slice) in slices {
                let new = NewPartition {
                    kind: TYPE_LINUX_RAID,
                    guid: Uuid::new_v4(),
                    name,
                    bytes: slice.length,
                    align: ALIGNMENT,
                };
                let added = gpt.add_from(&new, slice.start);
                let added = added.map_err(|error| fails(error.to_string()))?;
                tell(index, added.number);
                written.push((added.number, slice));
            }
            for patch in gpt.encode(None) {
                file.write_at(&patch.bytes, patch.offset)?;
            }
        }
        Label::Msdos => {
            let signature = Uuid::new_v4().as_fields().0;
            let mut mbr = Mbr::empty(signature);
            for (index, _, slice) in slices {
                let (start, length) = (slice.start / sector, slice.length / sector);
                let added = mbr.add_behind(MBR_RAID, start, length, sectors);
                let added = added.map_err(|error| fails(error.to_string()))?;
                tell(index, added.number);
                written.push((added.number, slice));
            }
            let mut first = vec![0; usize::try_from(sector).unwrap_or(512)];
            first[..512].copy_from_slice(mbr.bytes());
            file.write_at(&first, 0)?;
        }
    }
    // An old array of the same layout would show itself again.
    for (_, slice) in &written {
        let end = slice.length.min(MIB);
        file.zero(slice.start, end)?;
        file.zero(slice.start + slice.length - end, end)?;
    }
    file.drop_cache()?;
    file.reread_table()?;
    if file.is_device() {
        for (number, _) in &written {
            let node = disk.partition_path(*number);
            wait_until(&format!("{} does not come up", node.display()), || {
                node.exists()
            })?;
        }
    }
    Ok(())
}

/// Makes one array and empties it.
fn make(site: &Site<'_>, planned: &Planned, parts: &[String]) -> Result<(), RaidError> {
    let device = free_device(site);
    let node = site.enumerator.dev.join(&device);
    let path = node.display().to_string();
    let count = parts.len().to_string();
    let mut arguments: Vec<&str> = vec![
        "--create",
        &path,
        "--force",
        "--run",
        "--metadata=1",
        "--homehost=any",
        "--name",
        &planned.name,
        "--level",
        planned.volume.level.mdadm(),
        "--raid-devices",
        &count,
    ];
    arguments.extend(parts.iter().map(String::as_str));
    mdadm(site, &arguments)?;
    let tree = site.tree();
    wait_until(&format!("array {device} does not come up"), || {
        node.exists() && tree.size(&device) > 0
    })?;
    add_missing(site, &device, parts)?;
    // What lay there before the array was made shows through it. A new array
    // may answer with errors for a while, which the wipe has patience with.
    erase::wipe_stacked(&node, false)?;
    tracing::info!("array {device} ({}) of {}", planned.name, parts.join(", "));
    Ok(())
}

/// The first number that no array has.
pub(super) fn free_device(site: &Site<'_>) -> String {
    let block = site.enumerator.sys.join("block");
    let mut names = (0..).map(|number| format!("md{number}"));
    let free = names.find(|name| !block.join(name).exists());
    // The numbers do not end before that.
    free.unwrap_or_else(|| "md0".to_owned())
}

/// A member that fell out while the array was made is put back, and then it is
/// waited for.
fn add_missing(site: &Site<'_>, device: &str, parts: &[String]) -> Result<(), RaidError> {
    let tree = site.tree();
    let members = tree.below(device);
    let missing: Vec<&String> = parts
        .iter()
        .filter(|part| {
            let name = part.rsplit('/').next().unwrap_or_default();
            !members.iter().any(|member| member == name)
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let node = site.enumerator.dev.join(device).display().to_string();
    for part in missing {
        tracing::warn!("{part} fell out of {device} while it was made, and is put back");
        mdadm(site, &["--manage", &node, "--add", part])?;
    }
    let start = Instant::now();
    loop {
        let action = sysfs::text(&tree.directory(device).join("md/sync_action"));
        if action.is_none_or(|action| action == "idle") {
            return Ok(());
        }
        if start.elapsed() >= RECOVERY || site.cancel.load(Ordering::Relaxed) {
            let text = format!("array {device} is still being completed");
            return Err(RaidError::NotReady(text));
        }
        thread::sleep(Duration::from_secs(1));
    }
}

pub(super) fn mdadm(site: &Site<'_>, arguments: &[&str]) -> Result<String, RaidError> {
    let call = Call {
        limit: MDADM,
        ..Call::new("mdadm", arguments.iter().copied())
    };
    Ok(site.tools.run(&call)?)
}

pub(super) fn wait_until(problem: &str, holds: impl Fn() -> bool) -> Result<(), RaidError> {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() >= READY {
            return Err(RaidError::NotReady(format!(
                "{problem} within {} s",
                READY.as_secs()
            )));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}
