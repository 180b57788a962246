//! Erasing everything on a disk.

use crate::disk::block::Access;
use crate::disk::block::BlockFile;
use crate::disk::device::Disk;
use crate::disk::erase::EraseOptions;
use crate::disk::erase::guard;
use crate::disk::erase::metadata;
use crate::disk::erase::nvme;
use crate::disk::erase::pool::Bytes;
use crate::disk::erase::report::Method;
use crate::disk::error::Error;
use crate::disk::probe::Region;
use crate::disk::table::Table;

/// Zeroes are asked for in pieces, so that progress shows and a stop is
/// heeded.
const PIECE: u64 = 64 << 20;
/// Size and number of the samples that are read back.
const SAMPLE: u64 = 64 << 10;
const SAMPLES: u64 = 256;

/// Erases a disk by its own means where it has them, else with zeroes.
pub(super) fn erase(
    disk: &Disk,
    options: &EraseOptions,
    counter: &Bytes<'_>,
) -> Result<Method, Error> {
    let file = BlockFile::open(&disk.path, Access::Exclusive)?;
    if options.guard {
        let table = Table::read(&file).ok().flatten();
        let partitions = table.iter().flat_map(|table| &table.partitions);
        let mut regions: Vec<Region<'_>> = partitions.map(|p| p.region(&file)).collect();
        regions.push(Region::whole(&file));
        guard::check(&file, table.as_ref(), &regions)?;
    }
    if options.nvme_format && file.is_device() && disk.name.starts_with("nvme") {
        match nvme::format(&file, &disk.name, &options.sys) {
            Ok(Some(method)) => {
                counter.add(disk.size);
                drop(file);
                // Whatever the drive gives back now, it is not to look used.
                metadata::wipe(disk, false)?;
                return Ok(method);
            }
            Ok(None) => {}
            Err(error) if options.overwrite_after_failure => {
                tracing::warn!(dev = %disk.path.display(), %error, "the drive's own erase failed, zeroes follow");
            }
            Err(error) => return Err(error),
        }
    }
    overwrite(&file, disk, options, counter)?;
    verify(&file)?;
    file.reread_table()?;
    Ok(Method::Zeroes)
}

fn overwrite(
    file: &BlockFile,
    disk: &Disk,
    options: &EraseOptions,
    counter: &Bytes<'_>,
) -> Result<(), Error> {
    let mut offset = 0;
    while offset < file.size() {
        options.check_cancelled(disk)?;
        let length = PIECE.min(file.size() - offset);
        file.zero(offset, length)?;
        counter.add(length);
        offset += length;
    }
    file.flush()
}

/// Reads samples from the medium: both ends, and places spread over the
/// disk that are shifted against any regular grid.
fn verify(file: &BlockFile) -> Result<(), Error> {
    file.drop_cache()?;
    let last = file.size().saturating_sub(SAMPLE);
    let length = usize::try_from(SAMPLE.min(file.size())).unwrap_or_default();
    let stride = last / SAMPLES;
    // A step of a linear congruential generator, enough to leave the grid.
    let mut shift: u64 = 0x9e37_79b9_7f4a_7c15;
    let inner = (1..SAMPLES).map(|index| {
        shift = shift
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let moved = index * stride + (shift >> 16) % stride.max(1);
        moved.min(last) / 4096 * 4096
    });
    for offset in [0].into_iter().chain(inner).chain([last]) {
        if file
            .read_some(offset, length)?
            .iter()
            .any(|byte| *byte != 0)
        {
            return Err(Error::NotZero {
                path: file.path().to_owned(),
                offset,
            });
        }
    }
    Ok(())
}
