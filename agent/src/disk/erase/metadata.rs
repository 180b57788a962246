//! Taking off a disk what makes it look used.

use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::disk::block::Access;
use crate::disk::block::BlockFile;
use crate::disk::device::Disk;
use crate::disk::erase::guard;
use crate::disk::error::Error;
use crate::disk::probe;
use crate::disk::probe::Region;
use crate::disk::probe::Signature;
use crate::disk::table::Table;

/// Both ends of a disk and of each partition are zeroed this far.
const END: u64 = 1 << 20;
/// A mirror may come to light only when the first copy is gone.
const PASSES: u32 = 3;
/// A new RAID volume answers with errors while it is made ready.
const READY_ATTEMPTS: u32 = 5;
const READY_PAUSE: Duration = Duration::from_secs(2);

/// Wipes a disk: what is in its partitions first, then the disk. Probes
/// again from the medium, and fails when anything is still to be seen.
/// `guard`: refuse a disk that other machines may share.
pub fn wipe_disk(disk: &Disk, guard: bool) -> Result<(), Error> {
    let file = BlockFile::open(&disk.path, Access::Exclusive)?;
    wipe_open(&file, disk, guard)
}

/// The same for any block device, such as a RAID array or a logical volume,
/// before it is stopped.
pub fn wipe_stacked(path: &Path, guard: bool) -> Result<(), Error> {
    let disk = Disk {
        path: path.to_owned(),
        ..Disk::default()
    };
    wipe_disk(&disk, guard)
}

/// The same for a disk that is claimed already.
pub(super) fn wipe_open(file: &BlockFile, disk: &Disk, guard: bool) -> Result<(), Error> {
    wait_ready(file)?;
    // A damaged table is wiped like any other.
    let table = Table::read(file).ok().flatten();
    let regions = regions(file, disk, table.as_ref());
    if guard {
        guard::check(file, table.as_ref(), &regions)?;
    }
    wipe_moved_backup(file)?;
    for _ in 0..PASSES {
        for region in &regions {
            for signature in region.signatures()? {
                zero_around(file, &signature)?;
            }
            zero_ends(region)?;
        }
        file.drop_cache()?;
        if left_over(&regions)?.is_empty() {
            return file.reread_table();
        }
    }
    let found = probe::listing(&left_over(&regions)?);
    Err(Error::StillThere {
        path: disk.path.clone(),
        found,
    })
}

/// Partitions as the kernel knows them and as the table has them, and last
/// the disk.
fn regions<'a>(file: &'a BlockFile, disk: &Disk, table: Option<&Table>) -> Vec<Region<'a>> {
    let known = disk
        .partitions
        .iter()
        .map(|partition| (partition.start, partition.size));
    let listed = table.into_iter().flat_map(|table| &table.partitions);
    let mut places: Vec<(u64, u64)> = known
        .chain(listed.map(|partition| (partition.start, partition.length)))
        .collect();
    places.sort_unstable();
    places.dedup();
    let inside = |(start, length): &(u64, u64)| {
        *length > 0
            && start
                .checked_add(*length)
                .is_some_and(|end| end <= file.size())
    };
    let mut regions: Vec<Region<'_>> = places
        .into_iter()
        .filter(inside)
        .map(|(start, length)| Region {
            disk: file,
            start,
            length,
        })
        .collect();
    regions.push(Region::whole(file));
    regions
}

/// A GPT's backup stands where the disk ended when the table was made; on a
/// disk that has grown since, that is inside of it.
fn wipe_moved_backup(file: &BlockFile) -> Result<(), Error> {
    let sector = u64::from(file.logical_sector());
    let length = usize::try_from(sector).unwrap_or(512);
    let header = |lba: u64| {
        let offset = lba.checked_mul(sector)?;
        let bytes = file.read_some(offset, length).ok()?;
        // UEFI 2.10 table 5.5: signature, MyLBA at 24, AlternateLBA at 32.
        let number = |at: usize| {
            let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        (bytes.starts_with(b"EFI PART") && number(24) == Some(lba)).then(|| number(32))?
    };
    let Some(backup) = header(1) else {
        return Ok(());
    };
    // Only what is a header itself and points back: nobody's data.
    if backup > 1 && header(backup) == Some(1) {
        file.zero(backup * sector, sector)?;
    }
    Ok(())
}

fn wait_ready(file: &BlockFile) -> Result<(), Error> {
    let mut attempt = 1;
    loop {
        match file.read_some(0, 4096) {
            Err(Error::Io { source, .. })
                if source.raw_os_error() == Some(libc::EIO) && attempt < READY_ATTEMPTS =>
            {
                attempt += 1;
                thread::sleep(READY_PAUSE);
            }
            result => return result.map(drop),
        }
    }
}

fn left_over(regions: &[Region<'_>]) -> Result<Vec<Signature>, Error> {
    let mut found = Vec::new();
    for region in regions {
        found.extend(region.signatures()?);
    }
    Ok(found)
}

/// Zeroes the sectors that a signature lies in.
fn zero_around(file: &BlockFile, signature: &Signature) -> Result<(), Error> {
    let sector = u64::from(file.logical_sector());
    let start = signature.offset / sector * sector;
    let end = (signature.offset + signature.length)
        .next_multiple_of(sector)
        .min(file.size());
    file.zero(start, end - start)
}

/// Zeroes the first and the last MiB, clipped where there is less.
fn zero_ends(region: &Region<'_>) -> Result<(), Error> {
    let sector = u64::from(region.disk.logical_sector());
    let head = region.length.min(END) / sector * sector;
    region.disk.zero(region.start, head)?;
    let tail = region.length.saturating_sub(head).min(END);
    let start = (region.start + region.length - tail).next_multiple_of(sector);
    region.disk.zero(
        start,
        (region.start + region.length).saturating_sub(start) / sector * sector,
    )
}
