//! Overwriting a disk from outside, pass by pass, and looking whether the
//! last pass is there.

use std::fs::File;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::OpenOptionsExt;

use crate::disk::block::BlockFile;
use crate::disk::device::Disk;
use crate::disk::erase::EraseOptions;
use crate::disk::erase::markers::pattern;
use crate::disk::erase::markers::places;
use crate::disk::erase::markers::seed;
use crate::disk::erase::pool::Share;
use crate::disk::error::Error;

/// Zeroes are asked for in pieces, so that progress shows and a stop is
/// heeded.
const ZERO_PIECE: u64 = 64 << 20;
/// Random data is written in pieces of this size.
const PIECE: usize = 4 << 20;
/// Alignment for writes past the page cache.
const ALIGNMENT: usize = 4096;
/// Size and number of the samples that are read back.
const SAMPLE: u64 = 64 << 10;
const SAMPLES: u64 = 256;

/// Runs all passes of the options over the disk and verifies the last one.
pub(super) fn overwrite(
    file: &BlockFile,
    disk: &Disk,
    options: &EraseOptions,
    share: &Share<'_>,
) -> Result<(), Error> {
    let passes = u64::from(options.random_passes) + u64::from(options.zeroes);
    let mut last = None;
    for pass in 0..passes {
        let size = u128::from(file.size());
        let told = |done: u64| {
            share.set(
                u128::from(pass) * size + u128::from(done),
                u128::from(passes) * size,
            );
        };
        if pass < u64::from(options.random_passes) {
            let seed = seed();
            random(file, disk, options, seed, &told)?;
            last = Some(seed);
        } else {
            zeroes(file, disk, options, &told)?;
            last = None;
        }
        file.flush()?;
    }
    verify(file, last)
}

fn zeroes(
    file: &BlockFile,
    disk: &Disk,
    options: &EraseOptions,
    told: &dyn Fn(u64),
) -> Result<(), Error> {
    let mut offset = 0;
    while offset < file.size() {
        options.check_cancelled(disk)?;
        let length = ZERO_PIECE.min(file.size() - offset);
        file.zero(offset, length)?;
        offset += length;
        told(offset);
    }
    Ok(())
}

fn random(
    file: &BlockFile,
    disk: &Disk,
    options: &EraseOptions,
    seed: u64,
    told: &dyn Fn(u64),
) -> Result<(), Error> {
    let direct = open_direct(file);
    let mut buffer = vec![0_u8; PIECE + ALIGNMENT];
    let start = buffer.as_ptr().align_offset(ALIGNMENT);
    let mut offset = 0;
    while offset < file.size() {
        options.check_cancelled(disk)?;
        let left = usize::try_from(file.size() - offset).unwrap_or(usize::MAX);
        let piece = &mut buffer[start..start + PIECE.min(left)];
        pattern(seed, offset, piece);
        match &direct {
            Some(direct) => direct
                .write_all_at(piece, offset)
                .map_err(|e| Error::io("overwrite", file.path(), e))?,
            None => file.write_at(piece, offset)?,
        }
        offset += piece.len() as u64;
        told(offset);
    }
    Ok(())
}

/// The same device, written past the page cache: its memory is the
/// machine's. `None` where that does not go, as with a plain file whose size
/// is not a multiple.
fn open_direct(file: &BlockFile) -> Option<File> {
    if !file.is_device() {
        return None;
    }
    // The claim on the device is held by the first descriptor.
    let path = format!("/proc/self/fd/{}", file.fd().as_raw_fd());
    OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_DIRECT | libc::O_CLOEXEC)
        .open(path)
        .ok()
}

/// Reads samples from the medium: both ends, and places spread over the
/// disk. `seed` is that of the last pass, if it was random.
fn verify(file: &BlockFile, seed: Option<u64>) -> Result<(), Error> {
    file.drop_cache()?;
    let length = usize::try_from(SAMPLE.min(file.size())).unwrap_or_default();
    // Places are multiples of 4096: a little more, for the very end.
    let more = length + 4096;
    let mut expected = vec![0; more];
    for offset in places(file.size(), length as u64, SAMPLES) {
        let found = file.read_some(offset, more)?;
        if let Some(seed) = seed {
            pattern(seed, offset, &mut expected);
        }
        if found != expected[..found.len()] {
            return Err(Error::NotOverwritten {
                path: file.path().to_owned(),
                offset,
            });
        }
    }
    Ok(())
}
