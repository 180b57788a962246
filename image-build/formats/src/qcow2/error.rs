//! Why a qcow2 image is not read.

use thiserror::Error;

/// A refused or damaged qcow2 image.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// Fewer bytes than the smallest header.
    #[error("the qcow2 header is cut off: {have} bytes, need {need}")]
    Short {
        /// Bytes there are.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// Not a qcow2 image.
    #[error("not a qcow2 image: it starts with {found:02x?}")]
    Magic {
        /// What it starts with.
        found: [u8; 4],
    },
    /// A version that is not 2 or 3.
    #[error("qcow2 version {0} is not supported, only 2 and 3 are")]
    Version(u32),
    /// The image needs another file.
    #[error(
        "the image is only a difference to the backing file {0:?}; flatten it first with \
         'qemu-img convert -O qcow2'"
    )]
    BackingFile(String),
    /// The data is in another file.
    #[error(
        "the image keeps its data in an external data file; make it one file with \
         'qemu-img convert -O qcow2'"
    )]
    DataFile,
    /// The image is encrypted.
    #[error("the image is encrypted ({0}); encrypted images are not written")]
    Encrypted(&'static str),
    /// QEMU marked the image as corrupt.
    #[error("the image is marked corrupt; repair it with 'qemu-img check -r all'")]
    Corrupt,
    /// Incompatible features that this reader does not know.
    #[error("the image uses features that are not supported: {}", .0.join(", "))]
    Features(Vec<String>),
    /// A compression type that is not known.
    #[error("compression type {0} is not known, only 0 (zlib) and 1 (zstd) are")]
    Compression(u8),
    /// A field outside its range.
    #[error("the qcow2 header's {field} is {found}, expected {expected}")]
    Field {
        /// Name as in the specification.
        field: &'static str,
        /// What it is.
        found: u64,
        /// What it may be.
        expected: &'static str,
    },
    /// A table that does not lie in the file or lies on the header.
    #[error("the {table} ({bytes} bytes at offset {offset}) {problem}")]
    Table {
        /// Which table.
        table: &'static str,
        /// Where it claims to be.
        offset: u64,
        /// How long it claims to be.
        bytes: u64,
        /// What is wrong with that.
        problem: &'static str,
    },
    /// An L1 or L2 entry that cannot be right.
    #[error("the {level} entry {entry:#018x} for guest offset {guest} {problem}")]
    Entry {
        /// `L1` or `L2`.
        level: &'static str,
        /// The entry's first 8 bytes.
        entry: u64,
        /// Guest offset in bytes.
        guest: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
}
