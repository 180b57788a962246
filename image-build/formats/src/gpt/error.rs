//! Why a GPT is not read or changed.

use thiserror::Error;

/// A damaged table, or one that has no room for a change.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// No `EFI PART` where the header should be.
    #[error("no GPT header at sector {lba}")]
    NoHeader {
        /// Sector that was looked at.
        lba: u64,
    },
    /// A checksum differs.
    #[error("the GPT {part} is damaged: CRC-32 is {found:08x}, expected {expected:08x}")]
    Crc {
        /// `header` or `entries`.
        part: &'static str,
        /// Computed.
        found: u32,
        /// Stored.
        expected: u32,
    },
    /// A field outside its range.
    #[error("the GPT header's {field} is {found}, expected {expected}")]
    Field {
        /// Which field.
        field: &'static str,
        /// What it is.
        found: u64,
        /// What it may be.
        expected: &'static str,
    },
    /// A partition outside the usable sectors, or two that overlap.
    #[error("GPT partition {number} (sectors {first} to {last}) {problem}")]
    Partition {
        /// Number from 1.
        number: u32,
        /// First sector.
        first: u64,
        /// Last sector.
        last: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// No free entry.
    #[error("all {0} entries of the GPT are in use")]
    Full(u32),
    /// No gap of the wanted size at the end of the disk.
    #[error("no room for {need} sectors behind sector {end}; the last usable sector is {last}")]
    NoRoom {
        /// Sectors wanted.
        need: u64,
        /// First sector behind the last partition.
        end: u64,
        /// Last usable sector.
        last: u64,
    },
    /// The disk is too small for the table.
    #[error("the disk has {disk} sectors, the GPT and its partitions need at least {need}")]
    DiskTooSmall {
        /// Sectors of the disk.
        disk: u64,
        /// Sectors needed.
        need: u64,
    },
    /// A partition name that does not fit 36 UTF-16 units.
    #[error("the partition name {0:?} is longer than 36 UTF-16 units")]
    Name(String),
}
