//! ISO 9660 (ECMA-119) level 1 images with El Torito boot entries for UEFI
//! and BIOS.
//!
//! One volume, one directory, files of one extent: what a baseboard
//! controller needs to boot a machine from virtual media and to hand it a few
//! small files. [`write`] lays an image out without holding any file's
//! content, so that a 20 MB boot image is streamed from where it lies;
//! [`read`] finds files again on a raw block device.

mod encode;
mod read;
mod write;

pub use self::read::Entry;
pub use self::read::ReadError;
pub use self::read::Reader;
pub use self::write::Builder;
pub use self::write::Content;
pub use self::write::Layout;
pub use self::write::LayoutError;
pub use self::write::Piece;
pub use self::write::boot_info;

/// Bytes in one logical sector.
pub const SECTOR: u64 = 2048;

/// Sector of the primary volume descriptor (ECMA-119 §8.4).
const PRIMARY_SECTOR: u64 = 16;

/// Standard identifier of every volume descriptor.
const STANDARD_ID: &[u8; 5] = b"CD001";

#[cfg(test)]
mod tests;
