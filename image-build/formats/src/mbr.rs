//! The DOS partition table in the first sector of a disk.

use thiserror::Error;

/// Bytes of the sector that matter, on every sector size.
pub const MBR_BYTES: usize = 512;
/// Where the four entries start.
const ENTRIES: usize = 446;
/// Bytes of one entry.
const ENTRY: usize = 16;
/// Where the disk signature is.
const SIGNATURE: usize = 440;
/// Type of the one entry that guards a GPT.
pub const TYPE_PROTECTIVE: u8 = 0xee;
/// Type of an EFI system partition.
pub const TYPE_ESP: u8 = 0xef;
/// Types that hold logical partitions.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];

/// A missing or full table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// Not enough bytes or no signature.
    #[error("no MBR signature (55 aa) at byte 510")]
    NoSignature,
    /// All four entries are used.
    #[error("all four primary partitions of the MBR are in use")]
    Full,
    /// No gap of the wanted size at the end of the disk.
    #[error("no room for {need} sectors behind sector {end} on a disk of {disk} sectors")]
    NoRoom {
        /// Sectors wanted.
        need: u64,
        /// First sector behind the last partition.
        end: u64,
        /// Sectors of the disk that an MBR can name.
        disk: u64,
    },
}

/// One used primary entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// 1 to 4.
    pub number: u32,
    /// Type byte.
    pub kind: u8,
    /// Whether the entry is marked active.
    pub active: bool,
    /// First sector.
    pub start: u32,
    /// Number of sectors.
    pub sectors: u32,
}

impl Partition {
    /// Whether it is a container of logical partitions.
    #[must_use]
    pub fn is_extended(&self) -> bool {
        EXTENDED.contains(&self.kind)
    }
}

/// A boot sector with a DOS partition table; boot code is kept as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mbr {
    bytes: [u8; MBR_BYTES],
}

impl Mbr {
    /// Reads the first sector of a disk.
    ///
    /// # Errors
    /// [`Error::NoSignature`].
    pub fn parse(sector: &[u8]) -> Result<Self, Error> {
        let bytes = *sector
            .first_chunk::<MBR_BYTES>()
            .ok_or(Error::NoSignature)?;
        if bytes[510..] != [0x55, 0xaa] {
            return Err(Error::NoSignature);
        }
        Ok(Self { bytes })
    }

    /// A protective MBR without boot code for a disk of that many sectors
    /// (UEFI specification 5.2.3).
    #[must_use]
    pub fn protective(disk_sectors: u64) -> Self {
        let mut mbr = Self {
            bytes: [0; MBR_BYTES],
        };
        mbr.bytes[510..].copy_from_slice(&[0x55, 0xaa]);
        mbr.put_protective(disk_sectors);
        mbr
    }

    /// The sector's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; MBR_BYTES] {
        &self.bytes
    }

    /// The disk signature.
    #[must_use]
    pub fn signature(&self) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.bytes[SIGNATURE..SIGNATURE + 4]);
        u32::from_le_bytes(bytes)
    }

    /// The used entries, in order.
    pub fn partitions(&self) -> impl Iterator<Item = Partition> + '_ {
        self.bytes[ENTRIES..510]
            .chunks_exact(ENTRY)
            .zip(1u32..)
            .filter_map(|(entry, number)| {
                let number32 = |at: usize| {
                    u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]])
                };
                let partition = Partition {
                    number,
                    kind: entry[4],
                    active: entry[0] == 0x80,
                    start: number32(8),
                    sectors: number32(12),
                };
                (partition.kind != 0 && partition.sectors != 0).then_some(partition)
            })
    }

    /// Whether an entry guards a GPT.
    #[must_use]
    pub fn is_protective(&self) -> bool {
        self.partitions()
            .any(|partition| partition.kind == TYPE_PROTECTIVE)
    }

    /// Whether these bytes are a FAT or NTFS boot sector, whose text happens
    /// to lie where a table would be.
    #[must_use]
    pub fn is_filesystem_boot_sector(&self) -> bool {
        let jump = matches!(self.bytes[0], 0xeb | 0xe9);
        let named = self.bytes[3..7] == *b"NTFS"
            || self.bytes[0x36..0x39] == *b"FAT"
            || self.bytes[0x52..0x57] == *b"FAT32";
        let valid = self.bytes[ENTRIES..510]
            .chunks_exact(ENTRY)
            .all(|e| matches!(e[0], 0 | 0x80));
        jump && named && !(valid && self.partitions().next().is_some())
    }

    /// Makes the protective entry cover a disk of another size, where the
    /// table is a pure protective one; a hybrid table is left alone.
    pub fn resize_protective(&mut self, disk_sectors: u64) {
        let mut partitions = self.partitions();
        let first = partitions.next();
        let pure = partitions.next().is_none();
        drop(partitions);
        if pure && first.is_some_and(|p| p.kind == TYPE_PROTECTIVE && p.number == 1) {
            self.put_protective(disk_sectors);
        }
    }

    fn put_protective(&mut self, disk_sectors: u64) {
        // An entry without sectors would be an unused one.
        let sectors = u32::try_from(disk_sectors.saturating_sub(1)).unwrap_or(u32::MAX);
        let sectors = sectors.max(1);
        let entry = &mut self.bytes[ENTRIES..ENTRIES + ENTRY];
        entry[..8].copy_from_slice(&[0, 0, 2, 0, TYPE_PROTECTIVE, 0xff, 0xff, 0xff]);
        entry[8..12].copy_from_slice(&1u32.to_le_bytes());
        entry[12..].copy_from_slice(&sectors.to_le_bytes());
    }

    /// Adds a primary partition of `sectors` at the end of the disk, its
    /// start a multiple of `align` sectors.
    ///
    /// # Errors
    /// [`Error::Full`] or [`Error::NoRoom`].
    pub fn add_at_end(
        &mut self,
        kind: u8,
        sectors: u64,
        disk_sectors: u64,
        align: u64,
    ) -> Result<Partition, Error> {
        let (slot, end) = self.free()?;
        // 32-bit sector numbers.
        let disk = disk_sectors.min(u64::from(u32::MAX));
        let no_room = Error::NoRoom {
            need: sectors,
            end,
            disk,
        };
        let align = align.max(1);
        let start = disk.checked_sub(sectors).map(|start| start - start % align);
        let Some(start) = start.filter(|start| *start >= end && *start > 0) else {
            return Err(no_room);
        };
        let (Ok(start), Ok(sectors)) = (u32::try_from(start), u32::try_from(sectors)) else {
            return Err(no_room);
        };
        Ok(self.put(slot, kind, start, sectors))
    }

    /// An empty table without boot code.
    #[must_use]
    pub fn empty(signature: u32) -> Self {
        let mut mbr = Self {
            bytes: [0; MBR_BYTES],
        };
        mbr.bytes[SIGNATURE..SIGNATURE + 4].copy_from_slice(&signature.to_le_bytes());
        mbr.bytes[510..].copy_from_slice(&[0x55, 0xaa]);
        mbr
    }

    /// Adds a primary partition behind all others, in sectors.
    ///
    /// # Errors
    /// [`Error::Full`] or [`Error::NoRoom`].
    pub fn add_behind(
        &mut self,
        kind: u8,
        start: u64,
        sectors: u64,
        disk_sectors: u64,
    ) -> Result<Partition, Error> {
        let (slot, end) = self.free()?;
        let disk = disk_sectors.min(u64::from(u32::MAX));
        let need = sectors;
        let fits = start >= end && start.checked_add(need).is_some_and(|end| end <= disk);
        match (u32::try_from(start), u32::try_from(sectors)) {
            (Ok(start), Ok(sectors)) if fits => Ok(self.put(slot, kind, start, sectors)),
            _ => Err(Error::NoRoom { need, end, disk }),
        }
    }

    /// The first unused entry, and the sector behind all partitions.
    fn free(&self) -> Result<(u32, u64), Error> {
        let used: Vec<Partition> = self.partitions().collect();
        let slot = (1..=4u32)
            .find(|number| used.iter().all(|partition| partition.number != *number))
            .ok_or(Error::Full)?;
        let end = used
            .iter()
            .map(|partition| u64::from(partition.start) + u64::from(partition.sectors))
            .max()
            .unwrap_or(1);
        Ok((slot, end))
    }

    fn put(&mut self, slot: u32, kind: u8, start: u32, sectors: u32) -> Partition {
        let at = ENTRIES + ENTRY * (slot as usize - 1);
        let entry = &mut self.bytes[at..at + ENTRY];
        // Cylinder, head and sector at their limit: "use the sector number".
        entry[..8].copy_from_slice(&[0, 0xfe, 0xff, 0xff, kind, 0xfe, 0xff, 0xff]);
        entry[8..12].copy_from_slice(&start.to_le_bytes());
        entry[12..].copy_from_slice(&sectors.to_le_bytes());
        Partition {
            number: slot,
            kind,
            active: false,
            start,
            sectors,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_added_one_behind_the_other() {
        let mut mbr = Mbr::empty(0x1234_5678);
        assert_eq!(mbr.signature(), 0x1234_5678);
        let first = mbr.add_behind(0xfd, 2048, 4096, 1 << 20).unwrap();
        assert_eq!((first.number, first.start, first.sectors), (1, 2048, 4096));
        let overlap = mbr.add_behind(0xfd, 4096, 10, 1 << 20);
        assert!(matches!(overlap, Err(Error::NoRoom { .. })));
        let beyond = mbr.add_behind(0xfd, 1 << 20, 10, 1 << 20);
        assert!(matches!(beyond, Err(Error::NoRoom { .. })));
        assert_eq!(mbr.add_behind(0xfd, 6144, 10, 1 << 20).unwrap().number, 2);
    }

    #[test]
    fn protective_covers_the_disk() {
        let mut mbr = Mbr::protective(1000);
        assert!(mbr.is_protective());
        mbr.resize_protective(1 << 33);
        assert_eq!(mbr.partitions().next().map(|p| p.sectors), Some(u32::MAX));
        for sectors in [0, 1, 2] {
            mbr.resize_protective(sectors);
            assert!(mbr.is_protective(), "{sectors}");
        }
    }

    #[test]
    fn partitions_are_added_at_the_end_until_full() {
        let mut mbr = Mbr::protective(10);
        mbr.bytes[ENTRIES..510].fill(0);
        let first = mbr.add_at_end(0x83, 2048, 1 << 20, 2048).unwrap();
        assert_eq!((first.number, first.start), (1, (1 << 20) - 2048));
        assert!(matches!(
            mbr.add_at_end(0x83, 1, 1 << 20, 1),
            Err(Error::NoRoom { .. })
        ));
        for number in 2..=4 {
            let more = mbr.add_at_end(0x83, 2048, (1 << 20) + 4096 * u64::from(number), 2048);
            assert_eq!(more.unwrap().number, number);
        }
        assert_eq!(mbr.add_at_end(0x83, 1, 1 << 30, 1), Err(Error::Full));
        assert_eq!(Mbr::parse(mbr.bytes()).unwrap().partitions().count(), 4);
    }

    #[test]
    fn disks_past_32_bits_are_used_up_to_the_limit() {
        let mut mbr = Mbr::protective(10);
        mbr.bytes[ENTRIES..510].fill(0);
        let added = mbr.add_at_end(0x83, 2048, 1 << 40, 2048).unwrap();
        assert!(u64::from(added.start) + 2048 <= u64::from(u32::MAX));
    }
}
