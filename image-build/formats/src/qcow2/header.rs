//! The qcow2 header and the checks that make its numbers safe to use.

use super::MAGIC;
use super::MAX_L1_BYTES;
use super::error::Error;
use super::feature;

/// Bytes from the start of the file that [`Header::parse`] wants to see, when
/// the file has them: header, extensions and the backing file's name.
pub const HEAD_BYTES: usize = 64 << 10;

/// Bytes of a version 2 header.
const V2_LENGTH: usize = 72;
/// Bytes of the shortest version 3 header.
const V3_LENGTH: usize = 104;
/// Incompatible feature bits (specification, "Header").
const DIRTY: u64 = 1 << 0;
const CORRUPT: u64 = 1 << 1;
const DATA_FILE: u64 = 1 << 2;
const COMPRESSION: u64 = 1 << 3;
const EXTENDED_L2: u64 = 1 << 4;

/// How compressed clusters are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Raw deflate, no zlib wrapper.
    Zlib,
    /// Zstandard frames.
    Zstd,
}

/// A checked header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// 2 or 3.
    pub version: u32,
    /// Cluster size is `1 << cluster_bits` bytes, 512 B to 2 MiB.
    pub cluster_bits: u32,
    /// Size of the disk in bytes, a multiple of 512.
    pub virtual_size: u64,
    /// Offset of the active L1 table in bytes.
    pub l1_offset: u64,
    /// Entries of the L1 table that the disk's size needs.
    pub l1_entries: u32,
    /// Number of internal snapshots, which are ignored.
    pub snapshots: u32,
    /// Whether L2 entries carry subcluster bitmaps.
    pub extended_l2: bool,
    /// Compression of compressed clusters.
    pub compression: Compression,
    /// Length of the file in bytes, when known.
    pub file_size: Option<u64>,
}

impl Header {
    /// Reads and checks the header in `head`, the first [`HEAD_BYTES`] of the
    /// file or all of a shorter one.
    ///
    /// # Errors
    /// [`Error`], naming what is refused or wrong.
    pub fn parse(head: &[u8], file_size: Option<u64>) -> Result<Self, Error> {
        let short = |need| Error::Short {
            have: head.len(),
            need,
        };
        let u32_at = |at: usize| be32(head, at).ok_or(short(at + 4));
        let u64_at = |at: usize| be64(head, at).ok_or(short(at + 8));

        let magic = head.first_chunk::<4>().ok_or(short(V2_LENGTH))?;
        if *magic != MAGIC {
            return Err(Error::Magic { found: *magic });
        }
        let version = u32_at(4)?;
        if !(2..=3).contains(&version) {
            return Err(Error::Version(version));
        }
        if head.len() < V2_LENGTH {
            return Err(short(V2_LENGTH));
        }
        let cluster_bits = u32_at(20)?;
        if !(9..=21).contains(&cluster_bits) {
            return Err(field("cluster_bits", cluster_bits.into(), "9 to 21"));
        }
        let cluster = 1u64 << cluster_bits;
        let v3 = if version == 3 {
            V3::parse(head, cluster)?
        } else {
            V3::default()
        };

        let backing = u64_at(8)?;
        if backing != 0 {
            return Err(Error::BackingFile(backing_name(head, backing, u32_at(16)?)));
        }
        match u32_at(32)? {
            0 => {}
            1 => return Err(Error::Encrypted("AES")),
            2 => return Err(Error::Encrypted("LUKS")),
            other => return Err(field("crypt_method", other.into(), "0 to 2")),
        }

        let virtual_size = u64_at(24)?;
        if virtual_size == 0 || !virtual_size.is_multiple_of(512) || virtual_size >> 62 != 0 {
            return Err(field(
                "size",
                virtual_size,
                "a multiple of 512 between 512 and 2^62",
            ));
        }
        let mut header = Self {
            version,
            cluster_bits,
            virtual_size,
            l1_offset: u64_at(40)?,
            l1_entries: 0,
            snapshots: u32_at(60)?,
            extended_l2: v3.extended_l2,
            compression: v3.compression,
            file_size,
        };
        let need = virtual_size.div_ceil(header.l2_span());
        let have = u32_at(36)?;
        if need > u64::from(have) {
            return Err(field(
                "l1_size",
                have.into(),
                "enough entries for the size of the disk",
            ));
        }
        header.l1_entries = u32::try_from(need)
            .ok()
            .filter(|_| u64::from(have) * 8 <= MAX_L1_BYTES)
            .ok_or(field("l1_size", have.into(), "at most 4194304"))?;
        header.check_table("L1 table", header.l1_offset, u64::from(have) * 8)?;

        let refcounts = u64::from(u32_at(56)?);
        if refcounts > 0 {
            let bytes = refcounts.saturating_mul(cluster);
            header.check_table("refcount table", u64_at(48)?, bytes)?;
        }
        if header.snapshots > 0 {
            header.check_table("snapshot table", u64_at(64)?, 1)?;
        }
        Ok(header)
    }

    /// Cluster size in bytes.
    #[must_use]
    pub fn cluster_size(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// Bytes that are allocated at once: a cluster, or one of its 32
    /// subclusters.
    #[must_use]
    pub fn piece_size(&self) -> u64 {
        if self.extended_l2 {
            self.cluster_size() / 32
        } else {
            self.cluster_size()
        }
    }

    /// Bytes of one L2 entry: 8, or 16 with subclusters.
    #[must_use]
    pub fn l2_entry_size(&self) -> u64 {
        if self.extended_l2 { 16 } else { 8 }
    }

    /// Guest bytes that one L2 table describes.
    #[must_use]
    pub fn l2_span(&self) -> u64 {
        // At most 2 MiB × 256 Ki entries: 2^39.
        self.cluster_size() * (self.cluster_size() / self.l2_entry_size())
    }

    /// Bytes of the part of the L1 table that matters.
    #[must_use]
    pub fn l1_bytes(&self) -> u64 {
        u64::from(self.l1_entries) * 8
    }

    /// Refuses a table that is unaligned, on the header or outside the file.
    pub(super) fn check_table(
        &self,
        table: &'static str,
        offset: u64,
        bytes: u64,
    ) -> Result<(), Error> {
        let refuse = |problem| {
            Err(Error::Table {
                table,
                offset,
                bytes,
                problem,
            })
        };
        if !offset.is_multiple_of(self.cluster_size()) {
            return refuse("does not start at a cluster boundary");
        }
        if offset < self.cluster_size() {
            return refuse("lies on the header");
        }
        match offset.checked_add(bytes) {
            None => refuse("ends past every possible file"),
            Some(end) if self.file_size.is_some_and(|size| end > size) => {
                refuse("does not lie inside the file")
            }
            Some(_) => Ok(()),
        }
    }
}

/// The fields that version 3 added.
struct V3 {
    extended_l2: bool,
    compression: Compression,
}

impl Default for V3 {
    fn default() -> Self {
        Self {
            extended_l2: false,
            compression: Compression::Zlib,
        }
    }
}

impl V3 {
    fn parse(head: &[u8], cluster: u64) -> Result<Self, Error> {
        let short = Error::Short {
            have: head.len(),
            need: V3_LENGTH,
        };
        let (Some(incompatible), Some(order), Some(length)) =
            (be64(head, 72), be32(head, 96), be32(head, 100))
        else {
            return Err(short);
        };
        let length_ok = u64::from(length) <= cluster && length % 8 == 0;
        let length = usize::try_from(length)
            .ok()
            .filter(|len| length_ok && *len >= V3_LENGTH);
        let Some(length) = length else {
            let found = be32(head, 100).unwrap_or(0).into();
            return Err(field(
                "header_length",
                found,
                "a multiple of 8 from 104 to a cluster",
            ));
        };
        let unknown = incompatible & !(DIRTY | CORRUPT | DATA_FILE | COMPRESSION | EXTENDED_L2);
        if unknown != 0 {
            return Err(Error::Features(feature::names(unknown, head, length)));
        }
        if incompatible & CORRUPT != 0 {
            return Err(Error::Corrupt);
        }
        if incompatible & DATA_FILE != 0 {
            return Err(Error::DataFile);
        }
        if order > 6 {
            return Err(field("refcount_order", order.into(), "0 to 6"));
        }
        let kind = if length > V3_LENGTH {
            *head.get(V3_LENGTH).ok_or(Error::Short {
                have: head.len(),
                need: V3_LENGTH + 1,
            })?
        } else {
            0
        };
        let compression = match (kind, incompatible & COMPRESSION != 0) {
            (0, false) => Compression::Zlib,
            (1, true) => Compression::Zstd,
            (0 | 1, _) => {
                let expected = "zero exactly when the compression feature bit is not set";
                return Err(field("compression_type", kind.into(), expected));
            }
            (other, _) => return Err(Error::Compression(other)),
        };
        let extended_l2 = incompatible & EXTENDED_L2 != 0;
        if extended_l2 && cluster < 16 << 10 {
            return Err(field(
                "cluster_size",
                cluster,
                "16384 or more with extended L2 entries",
            ));
        }
        Ok(Self {
            extended_l2,
            compression,
        })
    }
}

/// The backing file's name, as far as it lies in `head`.
fn backing_name(head: &[u8], offset: u64, len: u32) -> String {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let len = usize::try_from(len.min(1023)).unwrap_or(0);
    let bytes = start
        .checked_add(len)
        .and_then(|end| head.get(start..end))
        .unwrap_or_default();
    feature::printable(bytes)
}

fn field(field: &'static str, found: u64, expected: &'static str) -> Error {
    Error::Field {
        field,
        found,
        expected,
    }
}

/// Big-endian number at `at`, if it lies in `bytes`.
pub(super) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let slice = bytes.get(at..at.checked_add(4)?)?;
    slice.try_into().ok().map(u32::from_be_bytes)
}

/// Big-endian number at `at`, if it lies in `bytes`.
pub(super) fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    let slice = bytes.get(at..at.checked_add(8)?)?;
    slice.try_into().ok().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests;
