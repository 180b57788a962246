//! A whole GPT: reading its entries, moving it to a disk of another size,
//! adding a partition, and the bytes to write.

use uuid::Uuid;

use super::error::Error;
use super::header::Header;
use super::header::guid_at;
use super::header::u64_at;
use crate::mbr::Mbr;

/// Bytes to write at an offset of the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// Offset in bytes, a multiple of the sector size.
    pub offset: u64,
    /// Whole sectors.
    pub bytes: Vec<u8>,
}

/// One used entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Number, from 1.
    pub number: u32,
    /// Type GUID.
    pub kind: Uuid,
    /// GUID of the partition.
    pub guid: Uuid,
    /// First sector.
    pub first_lba: u64,
    /// Last sector, inclusive.
    pub last_lba: u64,
    /// Attribute bits.
    pub attributes: u64,
    /// Name.
    pub name: String,
}

/// A partition to be added at the end of the disk.
#[derive(Debug, Clone)]
pub struct NewPartition<'a> {
    /// Type GUID.
    pub kind: Uuid,
    /// GUID of the partition; the caller has the random source.
    pub guid: Uuid,
    /// Name, at most 36 UTF-16 units.
    pub name: &'a str,
    /// Size in bytes, rounded up to whole sectors.
    pub bytes: u64,
    /// The start is a multiple of this many bytes; 1 MiB is usual.
    pub align: u64,
}

/// A GPT with its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpt {
    sector_size: u32,
    header: Header,
    entries: Vec<u8>,
}

impl Gpt {
    /// Joins a header and its entries, which are the
    /// [`Header::entries_bytes`] bytes at [`Header::entries_lba`].
    ///
    /// # Errors
    /// Damaged entries, or partitions that overlap or leave the usable area.
    pub fn parse(header: Header, entries: &[u8], sector_size: u32) -> Result<Self, Error> {
        let found = crc32fast::hash(entries);
        if u64::try_from(entries.len()) != Ok(header.entries_bytes()) || found != header.entries_crc
        {
            return Err(Error::Crc {
                part: "entries",
                found,
                expected: header.entries_crc,
            });
        }
        let gpt = Self {
            sector_size,
            header,
            entries: entries.to_vec(),
        };
        let mut used = gpt.partitions();
        used.sort_by_key(|partition| partition.first_lba);
        let mut previous_end = None;
        for partition in &used {
            let problem = if partition.first_lba > partition.last_lba {
                Some("ends before it starts")
            } else if partition.first_lba < gpt.header.first_usable
                || partition.last_lba > gpt.header.last_usable
            {
                Some("lies outside the usable sectors")
            } else if previous_end.is_some_and(|end| partition.first_lba <= end) {
                Some("overlaps the one before it")
            } else {
                None
            };
            if let Some(problem) = problem {
                return Err(Error::Partition {
                    number: partition.number,
                    first: partition.first_lba,
                    last: partition.last_lba,
                    problem,
                });
            }
            previous_end = Some(partition.last_lba);
        }
        Ok(gpt)
    }

    /// An empty table with 128 entries.
    ///
    /// # Errors
    /// [`Error::DiskTooSmall`].
    pub fn new(sector_size: u32, disk_sectors: u64, disk_guid: Uuid) -> Result<Self, Error> {
        let entries = vec![0; 128 * 128];
        let sectors = sectors_of(&entries, sector_size);
        let need = 2 * sectors + 4;
        if disk_sectors < need {
            return Err(Error::DiskTooSmall {
                disk: disk_sectors,
                need,
            });
        }
        let header = Header {
            my_lba: 1,
            alternate_lba: disk_sectors - 1,
            first_usable: 2 + sectors,
            last_usable: disk_sectors - 2 - sectors,
            disk_guid,
            entries_lba: 2,
            entry_count: 128,
            entry_size: 128,
            entries_crc: 0,
        };
        Ok(Self {
            sector_size,
            header,
            entries,
        })
    }

    /// The header as it was read, or as the last change left it.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Bytes of a sector.
    #[must_use]
    pub fn sector_size(&self) -> u32 {
        self.sector_size
    }

    /// The used entries, in the order of their numbers.
    #[must_use]
    pub fn partitions(&self) -> Vec<Partition> {
        let size = self.header.entry_size as usize;
        let read = |(entry, number): (&[u8], u32)| {
            let kind = guid_at(entry, 0);
            (!kind.is_nil()).then(|| Partition {
                number,
                kind,
                guid: guid_at(entry, 16),
                first_lba: u64_at(entry, 32),
                last_lba: u64_at(entry, 40),
                attributes: u64_at(entry, 48),
                name: name(&entry[56..128]),
            })
        };
        self.entries
            .chunks_exact(size)
            .zip(1u32..)
            .filter_map(read)
            .collect()
    }

    /// Fits the table to a disk of `disk_sectors`: the backup moves to its
    /// end and the usable area grows with it. Returns whether anything
    /// changed.
    ///
    /// # Errors
    /// [`Error::DiskTooSmall`] when a partition would not fit.
    pub fn relocate(&mut self, disk_sectors: u64) -> Result<bool, Error> {
        let tail = self.entry_sectors() + 2;
        let last_used = self.partitions().iter().map(|p| p.last_lba).max();
        let need = last_used
            .unwrap_or(self.header.first_usable)
            .saturating_add(tail);
        if disk_sectors < need {
            return Err(Error::DiskTooSmall {
                disk: disk_sectors,
                need,
            });
        }
        let last_usable = disk_sectors - tail;
        let changed =
            self.header.alternate_lba != disk_sectors - 1 || self.header.last_usable != last_usable;
        self.header.alternate_lba = disk_sectors - 1;
        self.header.last_usable = last_usable;
        Ok(changed)
    }

    /// Adds a partition at the end of the usable area, in the first free
    /// entry.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::NoRoom`] or [`Error::Name`].
    pub fn add_at_end(&mut self, new: &NewPartition<'_>) -> Result<Partition, Error> {
        let used = self.partitions();
        let (need, align) = self.sectors_for(new);
        let last = self.header.last_usable;
        let end = used
            .iter()
            .map(|p| p.last_lba + 1)
            .max()
            .unwrap_or(self.header.first_usable);
        let start = (last + 1)
            .checked_sub(need)
            .map(|start| start - start % align);
        let Some(first_lba) = start.filter(|start| *start >= end) else {
            return Err(Error::NoRoom { need, end, last });
        };
        self.put(new, first_lba, need)
    }

    /// Adds a partition in the first gap from byte `from` on that has room for
    /// it, in the first free entry.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::NoRoom`] or [`Error::Name`].
    pub fn add_from(&mut self, new: &NewPartition<'_>, from: u64) -> Result<Partition, Error> {
        let mut used = self.partitions();
        used.sort_by_key(|partition| partition.first_lba);
        let (need, align) = self.sectors_for(new);
        let last = self.header.last_usable;
        let sector = u64::from(self.sector_size);
        let from = from.div_ceil(sector).max(self.header.first_usable);
        let mut start = from.next_multiple_of(align);
        for partition in &used {
            let fits = start
                .checked_add(need)
                .is_some_and(|end| end <= partition.first_lba);
            if partition.last_lba < start {
                continue;
            }
            if fits {
                break;
            }
            start = (partition.last_lba + 1).next_multiple_of(align);
        }
        if start
            .checked_add(need)
            .is_none_or(|end| end > last.saturating_add(1))
        {
            let end = start;
            return Err(Error::NoRoom { need, end, last });
        }
        self.put(new, start, need)
    }

    /// Length and alignment in sectors.
    fn sectors_for(&self, new: &NewPartition<'_>) -> (u64, u64) {
        let sector = u64::from(self.sector_size);
        let need = new.bytes.div_ceil(sector).max(1);
        (need, (new.align / sector).max(1))
    }

    /// Writes the first free entry.
    fn put(
        &mut self,
        new: &NewPartition<'_>,
        first_lba: u64,
        need: u64,
    ) -> Result<Partition, Error> {
        let used = self.partitions();
        let number = (1..=self.header.entry_count)
            .find(|number| used.iter().all(|partition| partition.number != *number))
            .ok_or(Error::Full(self.header.entry_count))?;
        let units: Vec<u16> = new.name.encode_utf16().collect();
        if units.len() > 36 {
            return Err(Error::Name(new.name.to_owned()));
        }
        let partition = Partition {
            number,
            kind: new.kind,
            guid: new.guid,
            first_lba,
            last_lba: first_lba + need - 1,
            attributes: 0,
            name: new.name.to_owned(),
        };
        let size = self.header.entry_size as usize;
        let at = (number as usize - 1) * size;
        let entry = &mut self.entries[at..at + size];
        entry.fill(0);
        entry[..16].copy_from_slice(&new.kind.to_bytes_le());
        entry[16..32].copy_from_slice(&new.guid.to_bytes_le());
        entry[32..40].copy_from_slice(&partition.first_lba.to_le_bytes());
        entry[40..48].copy_from_slice(&partition.last_lba.to_le_bytes());
        for (unit, place) in units.iter().zip(entry[56..128].chunks_exact_mut(2)) {
            place.copy_from_slice(&unit.to_le_bytes());
        }
        Ok(partition)
    }

    /// The bytes of both copies, in the order in which they are safe to
    /// write: backup first, then the primary, the protective MBR last.
    /// `mbr` is the disk's first sector; its boot code stays.
    #[must_use]
    pub fn encode(&self, mbr: Option<&Mbr>) -> Vec<Patch> {
        let sector = u64::from(self.sector_size);
        let size = self.sector_size as usize;
        let mut entries = self.entries.clone();
        let crc = crc32fast::hash(&entries);
        entries.resize(entries.len().next_multiple_of(size), 0);
        let primary = Header {
            my_lba: 1,
            entries_crc: crc,
            // A table read from its backup names the backup's entries.
            entries_lba: if self.header.my_lba == 1 {
                self.header.entries_lba
            } else {
                2
            },
            alternate_lba: self.backup_lba(),
            ..self.header.clone()
        };
        let backup = Header {
            my_lba: self.backup_lba(),
            alternate_lba: 1,
            entries_lba: self.backup_lba().saturating_sub(self.entry_sectors()),
            ..primary.clone()
        };
        let disk_sectors = self.backup_lba() + 1;
        let mut boot = vec![0; size];
        let sector0 = mbr.cloned().map_or_else(
            || Mbr::protective(disk_sectors),
            |mut mbr| {
                mbr.resize_protective(disk_sectors);
                mbr
            },
        );
        boot[..sector0.bytes().len()].copy_from_slice(sector0.bytes());
        vec![
            Patch {
                offset: backup.entries_lba * sector,
                bytes: entries.clone(),
            },
            Patch {
                offset: backup.my_lba * sector,
                bytes: backup.encode(size),
            },
            Patch {
                offset: primary.entries_lba * sector,
                bytes: entries,
            },
            Patch {
                offset: sector,
                bytes: primary.encode(size),
            },
            Patch {
                offset: 0,
                bytes: boot,
            },
        ]
    }

    fn backup_lba(&self) -> u64 {
        if self.header.my_lba == 1 {
            self.header.alternate_lba
        } else {
            self.header.my_lba
        }
    }

    fn entry_sectors(&self) -> u64 {
        sectors_of(&self.entries, self.sector_size)
    }
}

fn sectors_of(bytes: &[u8], sector_size: u32) -> u64 {
    (bytes.len() as u64).div_ceil(u64::from(sector_size))
}

/// UTF-16LE up to the first NUL.
fn name(bytes: &[u8]) -> String {
    let units = bytes
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    char::decode_utf16(units.take_while(|unit| *unit != 0))
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

#[cfg(test)]
mod tests;
