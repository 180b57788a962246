//! Making a disk the one that the firmware starts: UEFI boot entries, the
//! loaders they point at, and the check of BIOS boot code.

mod csv;
pub mod device_path;
pub mod efivars;
pub mod entries;
mod install;
pub mod load_option;
pub mod loader;

pub use install::BootError;
pub use install::Installed;
pub use install::check_bios;
pub use install::install_uefi;
pub use install::install_uefi_as;
