//! Kernel, modules and agent become initramfs, UKI and bootable media.
//!
//! Equal inputs give equal bytes: nothing of the building machine, no time
//! and no random number gets in.

mod build;
mod disc;
mod elf;
mod esp;
mod grub;
mod initramfs;
mod modinfo;
mod modules;
mod packages;
mod pe;
mod select;

pub use crate::build::Inputs;
pub use crate::build::build;
pub use crate::build::modules;
pub use crate::disc::Disc;
pub use crate::disc::disc;
pub use crate::packages::Missing;
pub use crate::packages::missing;
