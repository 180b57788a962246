//! The partition table of a disk, GPT or MBR, read and extended.

use std::fmt;

use uuid::Uuid;
use wrought_formats::gpt;
use wrought_formats::gpt::Gpt;
use wrought_formats::gpt::Header;
use wrought_formats::gpt::NewPartition;
use wrought_formats::mbr;
use wrought_formats::mbr::Mbr;

use crate::disk::block::BlockFile;
use crate::disk::error::Error;
use crate::disk::probe::Region;

/// Partitions start at multiples of this.
pub const ALIGNMENT: u64 = 1 << 20;

/// What a partition is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionKind {
    /// Type GUID.
    Gpt(Uuid),
    /// Type byte.
    Mbr(u8),
}

impl fmt::Display for PartitionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpt(guid) => write!(f, "{guid}"),
            Self::Mbr(kind) => write!(f, "{kind:#04x}"),
        }
    }
}

/// One partition of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePartition {
    /// Number, from 1.
    pub number: u32,
    /// What it is for.
    pub kind: PartitionKind,
    /// First byte on the disk.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
    /// Its GUID, in a GPT.
    pub guid: Option<Uuid>,
    /// Its name, in a GPT.
    pub name: String,
    /// Whether an MBR entry is marked active.
    pub active: bool,
}

impl TablePartition {
    /// Whether this is an EFI system partition.
    pub fn is_esp(&self) -> bool {
        match self.kind {
            PartitionKind::Gpt(guid) => guid == gpt::TYPE_ESP,
            PartitionKind::Mbr(kind) => kind == mbr::TYPE_ESP,
        }
    }

    /// Whether GRUB's BIOS core lives here.
    pub fn is_bios_boot(&self) -> bool {
        self.kind == PartitionKind::Gpt(gpt::TYPE_BIOS_BOOT)
    }

    /// The part of the disk that it covers.
    pub fn region<'a>(&self, disk: &'a BlockFile) -> Region<'a> {
        Region {
            disk,
            start: self.start,
            length: self.length,
        }
    }
}

impl fmt::Display for TablePartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (type {}, {} MiB",
            self.number,
            self.kind,
            self.length >> 20
        )?;
        if !self.name.is_empty() {
            write!(f, ", {:?}", self.name)?;
        }
        write!(f, ")")
    }
}

/// A partition that is to be in a GPT.
#[derive(Debug, Clone)]
pub struct NewRoom<'a> {
    /// Type GUID.
    pub kind: Uuid,
    /// Its GUID.
    pub guid: Uuid,
    /// Its name.
    pub name: &'a str,
    /// Length in bytes.
    pub length: u64,
    /// It lies in the first gap from this byte on.
    pub from: u64,
}

/// A table as it was read.
#[derive(Debug, Clone)]
enum Source {
    Gpt { gpt: Gpt, mbr: Option<Mbr> },
    Mbr(Mbr),
}

/// The partition table of a disk.
#[derive(Debug, Clone)]
pub struct Table {
    source: Source,
    sector: u64,
    /// Used entries, in the order of their numbers. Of an MBR the primary
    /// ones, without the container of logical partitions.
    pub partitions: Vec<TablePartition>,
}

impl Table {
    /// Reads the table of a disk: the primary GPT, else its backup, else the
    /// MBR. `None` when there is neither; an error when there is a GPT, but
    /// no sound copy of it.
    pub fn read(disk: &BlockFile) -> Result<Option<Self>, Error> {
        let sector = u64::from(disk.logical_sector());
        let first = disk.read_some(0, mbr::MBR_BYTES)?;
        let mbr = Mbr::parse(&first)
            .ok()
            .filter(|mbr| !mbr.is_filesystem_boot_sector());
        let sectors = disk.size() / sector;
        if sectors >= 3 {
            let primary = read_gpt(disk, 1)?;
            let backup = match primary {
                Ok(_) => None,
                Err(_) => Some(read_gpt(disk, sectors - 1)?),
            };
            match (primary, backup) {
                (Ok(gpt), _) | (Err(_), Some(Ok(gpt))) => {
                    let partitions = gpt_partitions(&gpt, sector);
                    return Ok(Some(Self {
                        source: Source::Gpt { gpt, mbr },
                        sector,
                        partitions,
                    }));
                }
                (Err(gpt::Error::NoHeader { .. }), _) => {}
                (Err(error), _) => {
                    return Err(Error::Table {
                        path: disk.path().to_owned(),
                        detail: format!("{error}, and no sound backup lies in the last sector"),
                    });
                }
            }
        }
        let Some(mbr) = mbr else {
            return Ok(None);
        };
        if mbr.is_protective() {
            return Err(Error::Table {
                path: disk.path().to_owned(),
                detail: format!(
                    "a protective MBR without a GPT for sectors of {sector} bytes; the image may \
                     have been made for another sector size"
                ),
            });
        }
        if mbr.partitions().next().is_none() {
            return Ok(None);
        }
        let partitions = mbr_partitions(&mbr, sector);
        Ok(Some(Self {
            source: Source::Mbr(mbr),
            sector,
            partitions,
        }))
    }

    /// `gpt` or `msdos`.
    pub fn kind(&self) -> &'static str {
        match self.source {
            Source::Gpt { .. } => "gpt",
            Source::Mbr(_) => "msdos",
        }
    }

    /// The disk's signature in an MBR.
    pub fn mbr_signature(&self) -> Option<u32> {
        match &self.source {
            Source::Mbr(mbr) => Some(mbr.signature()),
            Source::Gpt { .. } => None,
        }
    }

    /// The disk's identity: GUID, or `0x` with the MBR's signature.
    pub fn disk_id(&self) -> String {
        match &self.source {
            Source::Gpt { gpt, .. } => gpt.header().disk_guid.to_string(),
            Source::Mbr(mbr) => format!("{:#010x}", mbr.signature()),
        }
    }

    /// Whether the first sector has boot code.
    pub fn has_boot_code(&self) -> bool {
        let mbr = match &self.source {
            Source::Gpt { mbr, .. } => mbr.as_ref(),
            Source::Mbr(mbr) => Some(mbr),
        };
        mbr.is_some_and(|mbr| mbr.bytes()[..440].iter().any(|byte| *byte != 0))
    }

    /// All partitions in one line.
    pub fn listing(&self) -> String {
        if self.partitions.is_empty() {
            return format!("the {} table has no partitions", self.kind());
        }
        let partitions: Vec<String> = self
            .partitions
            .iter()
            .map(TablePartition::to_string)
            .collect();
        format!("partitions ({}): {}", self.kind(), partitions.join(", "))
    }

    /// Adds a partition in the first gap of a GPT that has room for it, and
    /// writes the table, the backup first.
    pub fn add_from(
        &mut self,
        disk: &BlockFile,
        new: &NewRoom<'_>,
    ) -> Result<TablePartition, Error> {
        let table_error = |detail: String| Error::Table {
            path: disk.path().to_owned(),
            detail,
        };
        let Source::Gpt { gpt, mbr } = &mut self.source else {
            return Err(table_error("expected a GPT, found an MBR".to_owned()));
        };
        let partition = NewPartition {
            kind: new.kind,
            guid: new.guid,
            name: new.name,
            bytes: new.length,
            align: ALIGNMENT,
        };
        let added = gpt.add_from(&partition, new.from);
        let added = added.map_err(|error| table_error(error.to_string()))?;
        for patch in gpt.encode(mbr.as_ref()) {
            disk.write_at(&patch.bytes, patch.offset)?;
        }
        disk.flush()?;
        self.partitions = gpt_partitions(gpt, self.sector);
        let found = self.partitions.iter();
        let mut found = found.filter(|partition| partition.number == added.number);
        let missing = || table_error("the new partition is not in the table".to_owned());
        found.next().cloned().ok_or_else(missing)
    }

    /// Adds a partition of `length` bytes at the end of the disk and writes
    /// the table, the backup first. A GPT's backup is moved to the disk's
    /// end before. `guid` names the partition in a GPT.
    pub fn add_at_end(
        &mut self,
        disk: &BlockFile,
        guid: Uuid,
        name: &str,
        length: u64,
    ) -> Result<TablePartition, Error> {
        let table_error = |detail: String| Error::Table {
            path: disk.path().to_owned(),
            detail,
        };
        let sectors = disk.size() / self.sector;
        let number = match &mut self.source {
            Source::Gpt { gpt, mbr } => {
                let added = gpt.relocate(sectors).and_then(|_| {
                    gpt.add_at_end(&NewPartition {
                        kind: gpt::TYPE_LINUX,
                        guid,
                        name,
                        bytes: length,
                        align: ALIGNMENT,
                    })
                });
                let added = added.map_err(|error| table_error(error.to_string()))?;
                for patch in gpt.encode(mbr.as_ref()) {
                    disk.write_at(&patch.bytes, patch.offset)?;
                }
                self.partitions = gpt_partitions(gpt, self.sector);
                added.number
            }
            Source::Mbr(mbr) => {
                // 0x0c: FAT32 with logical block addresses.
                let added = mbr
                    .add_at_end(0x0c, length / self.sector, sectors, ALIGNMENT / self.sector)
                    .map_err(|error| table_error(error.to_string()))?;
                let mut first = disk.read_some(0, usize::try_from(self.sector).unwrap_or(512))?;
                first[..mbr::MBR_BYTES].copy_from_slice(mbr.bytes());
                disk.write_at(&first, 0)?;
                self.partitions = mbr_partitions(mbr, self.sector);
                added.number
            }
        };
        disk.flush()?;
        let added = self
            .partitions
            .iter()
            .find(|partition| partition.number == number)
            .cloned();
        added.ok_or_else(|| table_error("the new partition is not in the table".to_owned()))
    }
}

/// Outer: the disk; inner: the table.
fn read_gpt(disk: &BlockFile, lba: u64) -> Result<Result<Gpt, gpt::Error>, Error> {
    let sector = disk.logical_sector();
    let bytes = usize::try_from(sector).unwrap_or(512);
    let header_bytes = disk.read_some(lba * u64::from(sector), bytes)?;
    let header = match Header::parse(&header_bytes, lba) {
        Ok(header) => header,
        Err(error) => return Ok(Err(error)),
    };
    // At most 1 MiB, Header::parse has seen to it.
    let length = usize::try_from(header.entries_bytes()).unwrap_or_default();
    let offset = header.entries_lba * u64::from(sector);
    let entries = disk.read_some(offset, length)?;
    Ok(Gpt::parse(header, &entries, sector))
}

fn gpt_partitions(gpt: &Gpt, sector: u64) -> Vec<TablePartition> {
    let convert = |partition: gpt::Partition| TablePartition {
        number: partition.number,
        kind: PartitionKind::Gpt(partition.kind),
        start: partition.first_lba * sector,
        length: (partition.last_lba - partition.first_lba + 1) * sector,
        guid: Some(partition.guid),
        name: partition.name,
        active: false,
    };
    gpt.partitions().into_iter().map(convert).collect()
}

fn mbr_partitions(mbr: &Mbr, sector: u64) -> Vec<TablePartition> {
    let convert = |partition: mbr::Partition| TablePartition {
        number: partition.number,
        kind: PartitionKind::Mbr(partition.kind),
        start: u64::from(partition.start) * sector,
        length: u64::from(partition.sectors) * sector,
        guid: None,
        name: String::new(),
        active: partition.active,
    };
    mbr.partitions()
        .filter(|partition| !partition.is_extended())
        .map(convert)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;
    use std::process::Command;

    use uuid::uuid;

    use super::Table;
    use crate::disk::block::Access;
    use crate::disk::block::BlockFile;

    fn sgdisk(path: &Path, arguments: &[&str]) -> String {
        let output = Command::new("/usr/sbin/sgdisk")
            .args(arguments)
            .arg(path)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}");
        text
    }

    #[test]
    fn a_partition_after_the_disk_grew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let file = File::create(&path).unwrap();
        file.set_len(64 << 20).unwrap();
        sgdisk(
            &path,
            &[
                "-n",
                "1:2048:+16M",
                "-t",
                "1:ef00",
                "-c",
                "1:boot",
                "-n",
                "2:0:+8M",
            ],
        );
        // The image was smaller than the disk: the backup is not at the end.
        file.set_len(256 << 20).unwrap();

        let disk = BlockFile::open(&path, Access::Exclusive).unwrap();
        let mut table = Table::read(&disk).unwrap().unwrap();
        assert_eq!((table.kind(), table.partitions.len()), ("gpt", 2));
        assert!(table.partitions[0].is_esp());
        assert_eq!(table.partitions[0].name, "boot");
        let guid = uuid!("11111111-2222-4333-8444-555555555555");
        let added = table.add_at_end(&disk, guid, "config-2", 64 << 20).unwrap();
        assert_eq!((added.number, added.length), (3, 64 << 20));
        assert_eq!(added.start % (1 << 20), 0);
        drop(disk);

        let verdict = sgdisk(&path, &["-v"]);
        assert!(verdict.contains("No problems found"), "{verdict}");
        let shown = sgdisk(&path, &["-i", "3"]);
        assert!(shown.contains("Partition name: 'config-2'"), "{shown}");
        assert!(
            shown.contains("11111111-2222-4333-8444-555555555555"),
            "{shown}"
        );
    }

    #[test]
    fn a_broken_primary_is_read_from_the_backup() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        File::create(&path).unwrap().set_len(64 << 20).unwrap();
        sgdisk(&path, &["-n", "1:2048:+16M"]);
        let disk = BlockFile::open(&path, Access::Exclusive).unwrap();
        disk.write_at(&[0; 512], 512).unwrap();
        let table = Table::read(&disk).unwrap().unwrap();
        assert_eq!(table.partitions.len(), 1);
        disk.zero((64 << 20) - 512, 512).unwrap();
        let error = Table::read(&disk).unwrap_err().to_string();
        assert!(error.contains("protective MBR without a GPT"), "{error}");
    }

    #[test]
    fn no_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let disk = BlockFile::open(&path, Access::Read).unwrap();
        assert!(Table::read(&disk).unwrap().is_none());
    }

    #[test]
    fn an_mbr_gets_a_primary_partition() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        File::create(&path).unwrap().set_len(256 << 20).unwrap();
        let disk = BlockFile::open(&path, Access::Exclusive).unwrap();
        let mut first = [0_u8; 512];
        first[0] = 0xeb;
        first[440..444].copy_from_slice(&[0x78, 0x56, 0x34, 0x12]);
        first[446..462].copy_from_slice(&[
            0x80, 0, 2, 0, 0x83, 0xfe, 0xff, 0xff, 0, 8, 0, 0, 0, 0, 2, 0,
        ]);
        first[510..].copy_from_slice(&[0x55, 0xaa]);
        disk.write_at(&first, 0).unwrap();
        let mut table = Table::read(&disk).unwrap().unwrap();
        assert_eq!(table.disk_id(), "0x12345678");
        assert!(table.has_boot_code());
        let added = table
            .add_at_end(&disk, uuid::Uuid::nil(), "config-2", 64 << 20)
            .unwrap();
        assert_eq!(added.number, 2);
        assert!(added.start + added.length <= disk.size());
        let again = Table::read(&disk).unwrap().unwrap();
        assert_eq!(again.partitions, table.partitions);
        assert!(again.partitions[0].active);
    }
}
