//! What a finished write found and did.

use std::time::Duration;

use wrought_formats::detect::Format;

use crate::request::Algorithm;

/// Result of a successful [`write`](crate::write).
#[derive(Debug, Clone)]
pub struct WriteReport {
    /// Format of the image, found by content.
    pub format: Format,
    /// What the image was compressed with as a whole, if it was.
    pub container: Option<Format>,
    /// The URL or path that was read, without credentials.
    pub source: String,
    /// Bytes read in the hashed pass: the size of the source.
    pub bytes_in: u64,
    /// Bytes of the disk that the image covers.
    pub bytes_out: u64,
    /// How many of those were put in place as zero ranges.
    pub bytes_zeroed: u64,
    /// Bytes fetched a second time (always checked against the hashed pass).
    pub bytes_refetched: u64,
    /// Algorithm of [`digest`](Self::digest).
    pub algorithm: Algorithm,
    /// Lower-case hex digest of the source, equal to the expected one.
    pub digest: String,
    /// Where the expected digest came from: `request` or a URL.
    pub checksum_source: String,
    /// Whether the target was read back and compared.
    pub read_back: bool,
    /// Size of the target in bytes.
    pub disk_bytes: u64,
    /// Logical sector size of the target in bytes.
    pub sector_size: u32,
    /// The partition table that is on the disk now.
    pub table: TableReport,
    /// What fills the target from its first byte, where that is known and
    /// there is no table.
    pub filesystem: Option<&'static str>,
    /// Time from the start to the last flush.
    pub elapsed: Duration,
    /// Connections that were opened to the source.
    pub connections: u32,
}

/// Kind of partition table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// GUID partition table.
    Gpt,
    /// DOS partition table.
    Mbr,
    /// None: the image fills a partition.
    Absent,
}

impl TableKind {
    /// Name as Ironic and parted say it: `gpt` or `msdos`; or `none`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpt => "gpt",
            Self::Mbr => "msdos",
            Self::Absent => "none",
        }
    }
}

/// A disk's partition table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableReport {
    /// GPT or MBR, or none.
    pub kind: TableKind,
    /// Disk GUID (lower-case, hyphens) or MBR signature (`0x` and 8 digits).
    pub disk_id: String,
    /// Used entries, in the order of their numbers.
    pub partitions: Vec<PartitionInfo>,
    /// Whether the backup GPT was moved to the end of the disk.
    pub backup_moved: bool,
}

impl TableReport {
    /// That of a partition.
    pub(crate) fn absent() -> Self {
        Self {
            kind: TableKind::Absent,
            disk_id: String::new(),
            partitions: Vec::new(),
            backup_moved: false,
        }
    }

    /// The EFI system partition, when there is one.
    #[must_use]
    pub fn esp(&self) -> Option<&PartitionInfo> {
        self.partitions.iter().find(|partition| partition.is_esp)
    }
}

/// One partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionInfo {
    /// Number, from 1.
    pub number: u32,
    /// First byte on the disk.
    pub start: u64,
    /// Size in bytes.
    pub size: u64,
    /// Type GUID, or `0x83` and the like for an MBR.
    pub type_id: String,
    /// Partition GUID, or `signature-NN` for an MBR, as Linux's PARTUUID.
    pub partuuid: String,
    /// GPT name; empty for an MBR.
    pub name: String,
    /// Whether this is an EFI system partition.
    pub is_esp: bool,
}
