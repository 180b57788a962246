//! Finding the files of an image's root directory.

use std::io;

use thiserror::Error;

use super::PRIMARY_SECTOR;
use super::SECTOR;
use super::STANDARD_ID;

/// Longest root directory that is read, in bytes.
const ROOT_MAX: u64 = 1 << 20;
/// Volume descriptors looked at before giving up.
const DESCRIPTORS_MAX: u64 = 64;
/// Bytes of a directory record before its identifier.
const RECORD_HEAD: usize = 33;
/// Flag bits: directory, or a further extent follows.
const FLAG_DIRECTORY: u8 = 2;
const FLAG_MORE: u8 = 0x80;

/// Why an image or a file in it cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The device or file underneath failed.
    #[error("reading {len} bytes at offset {offset} of the ISO 9660 image")]
    Io {
        /// Offset in bytes.
        offset: u64,
        /// Bytes that were asked for.
        len: usize,
        /// What the device said.
        source: io::Error,
    },
    /// No primary volume descriptor: this is no ISO 9660 image.
    #[error("no ISO 9660 primary volume descriptor at byte 32768: this is not an ISO 9660 image")]
    NotIso,
    /// A field has a value that this reader cannot go on with.
    #[error("ISO 9660 {field} is {found}, expected {expected}")]
    Field {
        /// Which field.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What would have been fine.
        expected: &'static str,
    },
    /// No file of this name.
    #[error("no file {0} in the ISO 9660 image's root directory")]
    NoFile(String),
    /// The file is longer than the caller allows.
    #[error("file {name} in the ISO 9660 image has {len} bytes, at most {limit} are accepted")]
    TooLong {
        /// The file's name.
        name: String,
        /// Its length in bytes.
        len: u64,
        /// The caller's limit in bytes.
        limit: u64,
    },
}

/// A file of the root directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name without version, for example `PARAMS.TXT`.
    pub name: String,
    /// Offset of the content in the image, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// Reads an image through a function that fills a buffer from an offset.
///
/// Offsets and lengths it asks for are multiples of [`SECTOR`], so that it
/// works on a raw block device. The function must fill the whole buffer.
#[derive(Debug)]
pub struct Reader<F> {
    read: F,
    volume: String,
    entries: Vec<Entry>,
}

impl<F: FnMut(u64, &mut [u8]) -> io::Result<()>> Reader<F> {
    /// Reads volume descriptor and root directory.
    ///
    /// # Errors
    /// [`ReadError::NotIso`] where there is no image, [`ReadError::Field`] on
    /// a damaged one, [`ReadError::Io`] from `read`.
    pub fn open(mut read: F) -> Result<Self, ReadError> {
        let primary = find_primary(&mut read)?;
        let block = u64::from(le16(&primary, 128));
        if block != SECTOR {
            return Err(ReadError::Field {
                field: "logical block size",
                found: block,
                expected: "2048",
            });
        }
        let volume = text(&primary[40..72]);
        let start = u64::from(le32(&primary, 156 + 2)) * SECTOR;
        let len = u64::from(le32(&primary, 156 + 10));
        if len == 0 || len > ROOT_MAX || !len.is_multiple_of(SECTOR) {
            return Err(ReadError::Field {
                field: "root directory length",
                found: len,
                expected: "a multiple of 2048 from 2048 to 1048576",
            });
        }
        let mut root = vec![0; len as usize];
        fill(&mut read, start, &mut root)?;
        let entries = root
            .chunks_exact(SECTOR as usize)
            .flat_map(parse_sector)
            .collect();
        Ok(Self {
            read,
            volume,
            entries,
        })
    }

    /// The volume identifier without trailing spaces.
    pub fn volume_id(&self) -> &str {
        &self.volume
    }

    /// The files of the root directory; subdirectories and files of several
    /// extents are left out.
    pub fn list(&self) -> &[Entry] {
        &self.entries
    }

    /// Content of the file `name` (case does not matter).
    ///
    /// # Errors
    /// [`ReadError::NoFile`], [`ReadError::TooLong`] beyond `limit` bytes, or
    /// [`ReadError::Io`].
    pub fn read_file(&mut self, name: &str, limit: u64) -> Result<Vec<u8>, ReadError> {
        let entry = self
            .entries
            .iter()
            .find(|entry| entry.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| ReadError::NoFile(name.to_owned()))?
            .clone();
        if entry.len > limit {
            return Err(ReadError::TooLong {
                name: entry.name,
                len: entry.len,
                limit,
            });
        }
        let mut out = vec![0; entry.len.next_multiple_of(SECTOR) as usize];
        fill(&mut self.read, entry.offset, &mut out)?;
        out.truncate(entry.len as usize);
        Ok(out)
    }
}

fn find_primary(
    read: &mut impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> Result<Vec<u8>, ReadError> {
    for sector in PRIMARY_SECTOR..PRIMARY_SECTOR + DESCRIPTORS_MAX {
        let mut found = vec![0; SECTOR as usize];
        fill(read, sector * SECTOR, &mut found)?;
        if &found[1..6] != STANDARD_ID || found[0] == 255 {
            break;
        }
        if found[0] == 1 {
            return Ok(found);
        }
    }
    Err(ReadError::NotIso)
}

fn fill(
    read: &mut impl FnMut(u64, &mut [u8]) -> io::Result<()>,
    offset: u64,
    out: &mut [u8],
) -> Result<(), ReadError> {
    if out.is_empty() {
        return Ok(());
    }
    let len = out.len();
    read(offset, out).map_err(|source| ReadError::Io {
        offset,
        len,
        source,
    })
}

/// Records of one directory sector; a damaged one ends it.
fn parse_sector(sector: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut rest = sector;
    while let Some((record, tail)) = split_record(rest) {
        rest = tail;
        let id = &record[RECORD_HEAD..RECORD_HEAD + usize::from(record[32])];
        if record[25] & (FLAG_DIRECTORY | FLAG_MORE) != 0 {
            continue;
        }
        let name = text(id.split(|b| *b == b';').next().unwrap_or(id));
        entries.push(Entry {
            name: name.trim_end_matches('.').to_owned(),
            offset: u64::from(le32(record, 2)) * SECTOR,
            len: u64::from(le32(record, 10)),
        });
    }
    entries
}

fn split_record(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = usize::from(*rest.first()?);
    if len <= RECORD_HEAD || len > rest.len() {
        return None;
    }
    let (record, tail) = rest.split_at(len);
    (RECORD_HEAD + usize::from(record[32]) <= len).then_some((record, tail))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
