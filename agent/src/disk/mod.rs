//! The disks of this machine: which there are, what they hold, which one an
//! image goes to, and how they are emptied.
//!
//! Everything comes from sysfs and ioctls, without udev and without tools.
//! A disk that anything on this machine uses is listed with the reason and
//! is never a target.

mod block;
mod device;
mod drive;
mod enumerate;
pub mod erase;
mod error;
pub mod hints;
mod identity;
mod in_use;
pub(crate) mod ioctl;
mod links;
pub mod probe;
mod select;
pub(crate) mod sysfs;
pub mod table;
mod window;

pub use block::Access;
pub use block::BlockFile;
pub use device::Disk;
pub use device::GIB;
pub use device::Partition;
pub use drive::DriveError;
pub use enumerate::Enumerator;
pub use error::Error;
pub(crate) use in_use::Uses;
pub use select::DiskRules;
pub use select::NoRootDisk;
pub use select::SMALLEST_ROOT;
pub use select::listing;
pub use select::root_disk;
pub use window::Window;
