//! Deployable operating-system images from distribution packages.
//!
//! Nothing is mounted and nothing is installed on the building machine: boot
//! loaders and kernels come out of unpacked packages, partitions are written
//! at their offsets.

mod build;
mod command;
mod debian;
mod disk;
mod grub;
mod parts;
mod raid;
mod sources;
mod tiny;

pub use crate::build::Kind;
pub use crate::build::build;
pub use crate::parts::Parts;
pub use crate::raid::modules as raid_modules;
pub use crate::tiny::MODULES as TINY_MODULES;
