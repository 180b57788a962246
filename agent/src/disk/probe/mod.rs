//! What a disk or partition holds, told by its superblocks.

mod label;
mod magic;
mod names;

pub use label::volume_label;
pub use magic::Kind;
pub use names::ContentName;

use std::fmt;

use crate::disk::block::BlockFile;
use crate::disk::error::Error;
use magic::MAGICS;
use magic::Magic;
use magic::Place;

/// Uberblocks of a ZFS label: the second half of 256 KiB.
const ZFS_LABEL: u64 = 256 << 10;
const ZFS_UBERBLOCKS: u64 = 128 << 10;
const ZFS_MAGIC: u64 = 0x00ba_b10c;
const MD_MAGIC: u32 = 0xa92b_4efc;

/// A part of a disk: the whole, or one partition.
#[derive(Debug, Clone, Copy)]
pub struct Region<'a> {
    /// The disk.
    pub disk: &'a BlockFile,
    /// First byte.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
}

/// A signature that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Signature {
    /// First byte of the signature, from the start of the disk.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// What it stands for.
    pub kind: Kind,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:#x}", self.kind, self.offset)
    }
}

impl<'a> Region<'a> {
    /// All of a disk.
    pub fn whole(disk: &'a BlockFile) -> Self {
        Self {
            disk,
            start: 0,
            length: disk.size(),
        }
    }

    /// Bytes at an offset of this region; `None` beyond its end.
    pub(crate) fn read(&self, offset: u64, length: usize) -> Result<Option<Vec<u8>>, Error> {
        let end = offset.checked_add(length as u64);
        if end.is_none_or(|end| end > self.length) {
            return Ok(None);
        }
        let mut buffer = vec![0; length];
        self.disk.read_at(&mut buffer, self.start + offset)?;
        Ok(Some(buffer))
    }

    fn place(&self, place: Place) -> Option<u64> {
        let sector = u64::from(self.disk.logical_sector());
        match place {
            Place::Start(offset) => Some(offset),
            Place::End(offset) => self.length.checked_sub(offset),
            Place::Sector(number) => number.checked_mul(sector),
            Place::LastSector(number) => self.length.checked_sub(number.checked_mul(sector)?),
        }
    }

    fn found(&self, kind: Kind, offset: u64, length: usize) -> Signature {
        Signature {
            kind,
            offset: self.start + offset,
            length: length as u64,
        }
    }

    fn check(&self, magic: &Magic) -> Result<Option<Signature>, Error> {
        let Some(offset) = self.place(magic.place) else {
            return Ok(None);
        };
        let bytes = self.read(offset, magic.bytes.len())?;
        let same = bytes.is_some_and(|bytes| bytes == magic.bytes);
        Ok(same.then(|| self.found(magic.kind, offset, magic.bytes.len())))
    }

    /// All signatures, by offset.
    pub fn signatures(&self) -> Result<Vec<Signature>, Error> {
        let mut found = Vec::new();
        for magic in MAGICS {
            found.extend(self.check(magic)?);
        }
        found.extend(self.md_at_end()?);
        found.extend(self.zfs()?);
        found.extend(self.mbr()?);
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// md superblocks whose place depends on the size: version 0.90 in the
    /// last whole 64 KiB block, version 1.0 at 8 KiB from the end rounded
    /// down to 4 KiB.
    fn md_at_end(&self) -> Result<Vec<Signature>, Error> {
        let mut found = Vec::new();
        if let Some(offset) = (self.length & !0xffff).checked_sub(0x1_0000)
            && let Some(bytes) = self.read(offset, 4)?
            && (bytes == MD_MAGIC.to_le_bytes() || bytes == MD_MAGIC.to_be_bytes())
        {
            found.push(self.found("linux_raid_member", offset, 4));
        }
        if let Some(sectors) = (self.length / 512).checked_sub(16) {
            let offset = (sectors & !7) * 512;
            if let Some(bytes) = self.read(offset, 4)?
                && bytes == MD_MAGIC.to_le_bytes()
            {
                found.push(self.found("linux_raid_member", offset, 4));
            }
        }
        Ok(found)
    }

    /// ZFS: two labels at the start, two at the end; the ring of uberblocks
    /// may begin with old or empty ones.
    fn zfs(&self) -> Result<Vec<Signature>, Error> {
        let aligned = self.length & !(ZFS_LABEL - 1);
        let mut found = Vec::new();
        let ends = [
            aligned.checked_sub(2 * ZFS_LABEL),
            aligned.checked_sub(ZFS_LABEL),
        ];
        for label in [Some(0), Some(ZFS_LABEL)].into_iter().chain(ends).flatten() {
            let size = usize::try_from(ZFS_UBERBLOCKS).unwrap_or_default();
            let Some(ring) = self.read(label + ZFS_UBERBLOCKS, size)? else {
                continue;
            };
            for (index, block) in ring.chunks_exact(1024).enumerate() {
                let magic = &block[..8];
                if magic == ZFS_MAGIC.to_le_bytes() || magic == ZFS_MAGIC.to_be_bytes() {
                    let offset = label + ZFS_UBERBLOCKS + 1024 * index as u64;
                    found.push(self.found("zfs_member", offset, 8));
                }
            }
        }
        Ok(found)
    }

    /// A boot sector's last two bytes; of a FAT or NTFS it belongs to the
    /// file system.
    fn mbr(&self) -> Result<Option<Signature>, Error> {
        let Some(sector) = self.read(0, 512)? else {
            return Ok(None);
        };
        Ok((sector[510..] == [0x55, 0xaa]).then(|| self.found("dos", 510, 2)))
    }
}

/// Signatures in one line.
pub fn listing(signatures: &[Signature]) -> String {
    signatures
        .iter()
        .map(Signature::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests;
