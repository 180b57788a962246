//! QEMU copy-on-write images, version 2 and 3, for reading.
//!
//! The header is checked so that nothing outside the file can be named by it
//! ([`Header::parse`]); tables are turned into [`Mapping`]s ([`Header::map_l2`]).
//! Written from QEMU's `docs/interop/qcow2` specification.

mod error;
mod feature;
mod header;
mod mapping;

pub use error::Error;
pub use header::Compression;
pub use header::HEAD_BYTES;
pub use header::Header;
pub use mapping::Mapping;
pub use mapping::l1_entry;

/// First bytes of every version.
pub const MAGIC: [u8; 4] = *b"QFI\xfb";
/// Most bytes an L1 table may have, the same bound as QEMU's: 32 MiB.
pub const MAX_L1_BYTES: u64 = 32 << 20;
