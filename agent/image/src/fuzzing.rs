//! Doors for the fuzz targets in `fuzz/`: inner parsers that no caller of the
//! crate reaches by themselves. Not part of the interface.

use std::io::BufReader;
use std::io::Read;

use crate::checksum;
use crate::container;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::report::TableReport;
use crate::table;
use crate::table::Disk;
use crate::table::Fitted;
use crate::target::END;

/// The digest of `name` in a sums file, as a write looks it up.
///
/// # Errors
/// What is wrong with the file.
pub fn find_in_sums(bytes: &[u8], name: &str) -> Result<String, String> {
    checksum::find_hex(&String::from_utf8_lossy(bytes), name)
}

/// Bytes to write, and where on the disk.
pub type Patches = Vec<(u64, Vec<u8>)>;

/// Judges the partition table of `image` for a disk of `size` bytes: the
/// report, and what would be written where.
///
/// # Errors
/// Why the image would be refused.
pub fn fit_table(
    image: &[u8],
    size: u64,
    sector_size: Option<u32>,
) -> Result<(TableReport, Patches), Error> {
    let read = |at: u64, len: usize| {
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        let bytes = image.get(start..).unwrap_or_default();
        let mut found = bytes[..len.min(bytes.len())].to_vec();
        if at.checked_add(len as u64).is_none_or(|end| end > size) {
            let text = "the table was looked for outside of the disk";
            return Err(Error::new(ErrorKind::Internal, Stage::Finish, text));
        }
        found.resize(len, 0);
        Ok(found)
    };
    let Fitted { report, patches } = table::fit(&Disk {
        head: &image[..image.len().min(END as usize)],
        size,
        sector_size,
        read: &read,
    })?;
    let patches = patches.into_iter().map(|patch| (patch.offset, patch.bytes));
    Ok((report, patches.collect()))
}

/// What a compressed container holds, read in pieces of `piece` bytes; no
/// more than `limit` bytes of it, in `memory` bytes.
///
/// # Errors
/// Why it would be refused.
pub fn unpack(bytes: &[u8], piece: usize, limit: u64, memory: u64) -> Result<Vec<u8>, String> {
    let found = container::recognise(bytes).map_err(|error| error.chain())?;
    let container = found.ok_or("no container")?;
    if container.memory > memory {
        return Err(format!("{} bytes of memory are needed", container.memory));
    }
    let reader = BufReader::with_capacity(piece, bytes);
    let mut out = Vec::new();
    container::decoder(container, reader)
        .and_then(|decoder| decoder.take(limit).read_to_end(&mut out))
        .map_err(|error| error.to_string())?;
    Ok(out)
}
