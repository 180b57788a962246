//! GUID partition tables (UEFI specification 2.10, chapter 5.3).
//!
//! Reading is in two steps, because the header says where the entries are:
//! [`Header::parse`] on the header's sector, then [`Gpt::parse`] with the
//! bytes of the entries. Writing gives [`Patch`]es: bytes and the offset on
//! the disk where they go.

mod error;
mod header;
mod table;

pub use error::Error;
pub use header::Header;
pub use table::Gpt;
pub use table::NewPartition;
pub use table::Partition;
pub use table::Patch;

use uuid::Uuid;

/// Type GUID of an EFI system partition.
pub const TYPE_ESP: Uuid = Uuid::from_u128(0xc12a7328_f81f_11d2_ba4b_00a0c93ec93b);
/// Type GUID of a Linux filesystem.
pub const TYPE_LINUX: Uuid = Uuid::from_u128(0x0fc63daf_8483_4772_8e79_3d69d8477de4);
/// A member of an md array.
pub const TYPE_LINUX_RAID: Uuid = Uuid::from_u128(0xa19d880f_05fc_4d3b_a006_743f0f84911e);
/// Type GUID of Microsoft basic data (FAT, NTFS).
pub const TYPE_BASIC_DATA: Uuid = Uuid::from_u128(0xebd0a0a2_b9e5_4433_87c0_68b6b72699c7);
/// Type GUID of a BIOS boot partition (GRUB).
pub const TYPE_BIOS_BOOT: Uuid = Uuid::from_u128(0x21686148_6449_6e6f_744e_656564454649);
