//! What the firmware remembers: boot entries (`clean_uefi_nvram`) and the
//! kernel's crash records (`erase_pstore`). Both belong to the last user of the
//! machine.

pub(crate) mod nvram;
pub(crate) mod path_text;
pub(crate) mod pstore;

use std::io;
use std::path::PathBuf;

use crate::boot::efivars;

/// What the firmware remembers could not be changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FirmwareError {
    /// The process only runs on the machine.
    #[error(
        "{step} changes what the firmware remembers, and this agent is not PID 1 of the machine: \
         boot the ramdisk for it"
    )]
    NotOurs {
        /// The step's name.
        step: &'static str,
    },
    /// The arguments of the step are wrong.
    #[error("{0}")]
    Arguments(String),
    /// The variables cannot be reached.
    #[error(
        "this machine was started by UEFI and /sys/firmware/efi/efivars holds no variable: is the \
         module efivarfs in the ramdisk, and does the kernel command line say noefi or efi=noruntime?"
    )]
    NoVariables,
    /// One variable.
    #[error("boot entries")]
    Variable(#[from] efivars::Error),
    /// The firmware took a change back.
    #[error("the firmware keeps {name} after it was deleted")]
    Kept {
        /// What should be gone.
        name: String,
    },
    /// A crash record, or their folder.
    #[error("{action} {}", path.display())]
    Record {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// Some crash records could not be deleted.
    #[error("{} of {found} crash records in {} could not be deleted: {}", left.len(), folder.display(), left.join("; "))]
    Records {
        /// Their folder.
        folder: PathBuf,
        /// How many there were.
        found: usize,
        /// Each with the reason.
        left: Vec<String>,
    },
}
