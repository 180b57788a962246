//! What can go wrong around disks.

use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::disk::drive::DriveError;

/// A failed operation on a disk or on what the kernel says of disks.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused an operation.
    #[error("{action} {}", path.display())]
    Io {
        /// What was tried, such as `open` or `zero the first MiB of`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The disk is in use and must not be written.
    #[error("{} is in use: {reason}; it is never a target", path.display())]
    InUse {
        /// The disk.
        path: PathBuf,
        /// By what.
        reason: String,
    },
    /// A read or write outside of the device.
    #[error("{length} bytes at offset {offset} lie outside of {} ({size} bytes)", path.display())]
    OutOfRange {
        /// The disk.
        path: PathBuf,
        /// Start of the access, bytes.
        offset: u64,
        /// Length of the access, bytes.
        length: u64,
        /// Size of the disk, bytes.
        size: u64,
    },
    /// The partition table cannot be used.
    #[error("partition table of {}: {detail}", path.display())]
    Table {
        /// The disk.
        path: PathBuf,
        /// What is wrong with it and what to do.
        detail: String,
    },
    /// A wipe did not hold.
    #[error("after the wipe {} still shows: {found}; the disk may be failing or be written by another host", path.display())]
    StillThere {
        /// The disk.
        path: PathBuf,
        /// Signatures with offsets.
        found: String,
    },
    /// The disk holds something that is shared between machines.
    #[error("{} holds {found}, which other machines may use; set driver_internal_info.wipe_special_filesystems to false to erase it all the same", path.display())]
    Guarded {
        /// The disk.
        path: PathBuf,
        /// What was found and where.
        found: String,
    },
    /// Sampled verification did not find what was written last.
    #[error("{} does not read back at offset {offset} what it was overwritten with", path.display())]
    NotOverwritten {
        /// The disk.
        path: PathBuf,
        /// Start of the sample, bytes.
        offset: u64,
    },
    /// A pattern did not reach the medium.
    #[error("{} does not keep what is written at offset {offset}; the drive may be failing", path.display())]
    NotWritten {
        /// The disk.
        path: PathBuf,
        /// Where, bytes.
        offset: u64,
    },
    /// A pattern from before an erase was found after it.
    #[error("{} still reads back at offset {offset} what was there before it erased itself", path.display())]
    StillReadable {
        /// The disk.
        path: PathBuf,
        /// Where, bytes.
        offset: u64,
    },
    /// The disk cannot be written.
    #[error("{} is read-only; take it out of the machine, list it in properties.skip_block_devices, or set driver_internal_info.agent_erase_skip_read_only", path.display())]
    ReadOnly {
        /// The disk.
        path: PathBuf,
    },
    /// The drive cannot be worked with.
    #[error("{}", path.display())]
    Drive {
        /// The disk.
        path: PathBuf,
        /// What it says.
        source: DriveError,
    },
    /// The drive's own means did not erase it, and overwriting is not wanted.
    #[error("{} was not erased: {causes}; set driver_internal_info.agent_continue_if_secure_erase_failed to overwrite it then", path.display())]
    OwnEraseFailed {
        /// The disk.
        path: PathBuf,
        /// All that went wrong.
        causes: String,
    },
    /// The operation was told to stop.
    #[error("stopped while working on {}: the agent is shutting down", path.display())]
    Cancelled {
        /// The disk.
        path: PathBuf,
    },
}

impl Error {
    /// Adds object and action to a kernel error.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}
