//! An EFI system partition on every disk of an array, so that the firmware can
//! start from any of them: the image's own lies within the array, where no
//! firmware finds it.
//!
//! The partitions are a RAID-1 of their own whose superblock lies at the end
//! (version 1.0), so that the firmware takes each for a plain FAT and the
//! installed system changes all of them at once.

use std::path::Path;
use std::path::PathBuf;

use uuid::Uuid;
use wrought_formats::gpt::TYPE_ESP;

use super::RaidError;
use super::Site;
use super::create::mdadm;
use super::create::wait_until;
use crate::disk::Access;
use crate::disk::BlockFile;
use crate::disk::Disk;
use crate::disk::table::NewRoom;
use crate::disk::table::Table;
use crate::disk::table::TablePartition;

const MIB: u64 = 1 << 20;
/// As Ironic's agent makes it.
const LENGTH: u64 = 550 * MIB;
/// Behind the first table.
const FROM: u64 = MIB;
/// Name of the array and of the partitions.
pub(super) const NAME: &str = "esp";
/// Bytes that are copied at a time.
const PIECE: usize = 1 << 20;

/// A disk that the firmware can start from.
#[derive(Debug, Clone)]
pub(crate) struct Bootable {
    /// The disk.
    pub(crate) disk: Disk,
    /// Its new partition.
    pub(crate) partition: TablePartition,
}

/// Copies the EFI system partition that lies within `array` to each disk that
/// the array is made of.
pub(crate) fn install(site: &Site<'_>, array: &Disk) -> Result<Vec<Bootable>, RaidError> {
    let source = BlockFile::open(&array.path, Access::Read)?;
    let table = Table::read(&source)?;
    let esp = table
        .iter()
        .flat_map(|table| &table.partitions)
        .find(|partition| partition.is_esp());
    let Some(esp) = esp else {
        return Err(RaidError::Disks(format!(
            "{} has no EFI system partition, which boot mode uefi needs",
            array.path.display()
        )));
    };
    let tree = site.tree();
    let mut names: Vec<String> = tree
        .below(&array.name)
        .iter()
        .map(|member| tree.whole(member))
        .collect();
    names.sort_unstable();
    names.dedup();
    let disks = site.disks();
    let holders = names.iter().map(|name| {
        let disk = disks.iter().find(|disk| disk.name == *name);
        disk.ok_or_else(|| {
            let text = format!("{name}, which {} is made of, is not there", array.name);
            RaidError::Disks(text)
        })
    });
    let holders: Vec<&Disk> = holders.collect::<Result<_, _>>()?;
    stop_old(site)?;
    let mut bootable = Vec::new();
    for disk in holders {
        let partition = ensure_partition(disk)?;
        bootable.push(Bootable {
            disk: disk.clone(),
            partition,
        });
    }
    let mirror = mirror(site, &bootable)?;
    copy(&source, esp, &mirror)?;
    // Two file systems with one identity: the system would mount either.
    drop(source);
    forget(array, esp)?;
    Ok(bootable)
}

/// An array that an earlier install has made is made anew.
fn stop_old(site: &Site<'_>) -> Result<(), RaidError> {
    for array in site.tree().arrays() {
        if array.name() == Some(NAME) {
            let stopped = site.kernel.stop_md(&array.path);
            stopped.map_err(|error| {
                RaidError::Busy(vec![format!(
                    "array {} could not be stopped: {error}",
                    array.device
                )])
            })?;
        }
    }
    Ok(())
}

/// The disk's EFI system partition, made where there is none.
fn ensure_partition(disk: &Disk) -> Result<TablePartition, RaidError> {
    // The array holds the disk's partitions.
    let file = BlockFile::open(&disk.path, Access::Shared)?;
    let Some(mut table) = Table::read(&file)? else {
        return Err(RaidError::Disks(format!(
            "{} has no partition table",
            disk.path.display()
        )));
    };
    let known = table.partitions.iter().find(|partition| partition.is_esp());
    if let Some(known) = known {
        return Ok(known.clone());
    }
    let room = NewRoom {
        kind: TYPE_ESP,
        guid: Uuid::new_v4(),
        name: NAME,
        length: LENGTH,
        from: FROM,
    };
    let added = table.add_from(&file, &room)?;
    file.announce_partition(added.number, added.start, added.length)?;
    if file.is_device() {
        let node = disk.partition_path(added.number);
        wait_until(&format!("{} does not come up", node.display()), || {
            node.exists()
        })?;
    }
    Ok(added)
}

/// Makes the RAID-1 of the partitions.
fn mirror(site: &Site<'_>, bootable: &[Bootable]) -> Result<PathBuf, RaidError> {
    let block = site.enumerator.sys.join("block");
    // The kernel's own numbers for arrays without one go down from there.
    let device = (0..=127)
        .rev()
        .map(|number| format!("md{number}"))
        .find(|name| !block.join(name).exists())
        .unwrap_or_else(|| "md127".to_owned());
    let node = site.enumerator.dev.join(&device);
    let path = node.display().to_string();
    let parts: Vec<String> = bootable
        .iter()
        .map(|one| one.disk.partition_path(one.partition.number))
        .map(|path| path.display().to_string())
        .collect();
    for one in bootable {
        let file = BlockFile::open(&one.disk.path, Access::Shared)?;
        let partition = &one.partition;
        // An old superblock at the end.
        let end = partition.length.min(MIB);
        file.zero(partition.start + partition.length - end, end)?;
        file.zero(partition.start, end)?;
        file.drop_cache()?;
    }
    let count = parts.len().to_string();
    let mut arguments = vec![
        "--create",
        path.as_str(),
        "--force",
        "--run",
        "--metadata=1.0",
        "--homehost=any",
        "--name",
        NAME,
        "--level",
        "1",
        "--raid-devices",
        count.as_str(),
    ];
    arguments.extend(parts.iter().map(String::as_str));
    mdadm(site, &arguments)?;
    let tree = site.tree();
    wait_until(&format!("array {device} does not come up"), || {
        node.exists() && tree.size(&device) > 0
    })?;
    Ok(node)
}

fn copy(source: &BlockFile, esp: &TablePartition, mirror: &Path) -> Result<(), RaidError> {
    let target = BlockFile::open(mirror, Access::Exclusive)?;
    if target.size() < esp.length {
        return Err(RaidError::Disks(format!(
            "the image's EFI system partition has {} MiB, {} has room for {}",
            esp.length / MIB,
            mirror.display(),
            target.size() / MIB
        )));
    }
    source.drop_cache()?;
    let mut done = 0;
    while done < esp.length {
        let left = usize::try_from(esp.length - done).unwrap_or(PIECE);
        let piece = source.read_some(esp.start + done, left.min(PIECE))?;
        target.write_at(&piece, done)?;
        done += piece.len() as u64;
    }
    target.flush()?;
    Ok(())
}

/// Takes the file system off the partition within the array.
fn forget(array: &Disk, esp: &TablePartition) -> Result<(), RaidError> {
    let file = BlockFile::open(&array.path, Access::Shared)?;
    file.zero(esp.start, esp.length.min(MIB))?;
    file.drop_cache()?;
    Ok(())
}
