//! What a drive can be told beyond reads and writes: the commands of its own
//! set, NVMe, ATA or SCSI, by which it erases itself.
//!
//! All of them go through [`Passthrough`], which the kernel implements by
//! ioctls and the tests by drives made of bytes.

pub(crate) mod ata;
mod error;
mod kernel;
pub(crate) mod nvme;
pub(crate) mod sanitize;
pub(crate) mod scsi;
pub(crate) mod sense;

#[cfg(test)]
mod tests;

pub use error::DriveError;
pub(crate) use kernel::Kernel;
#[cfg(test)]
pub(crate) use tests::double;

use std::io;
use std::time::Duration;

/// Data of a SCSI command.
#[derive(Debug)]
pub(crate) enum Transfer<'a> {
    /// None.
    None,
    /// From the drive.
    In(&'a mut [u8]),
    /// To the drive.
    Out(&'a [u8]),
}

/// What a SCSI command came back with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ScsiReply {
    /// Status byte (SAM-5 table 39): 0 good, 2 check condition.
    pub(crate) status: u8,
    /// Sense data, as long as it came.
    pub(crate) sense: Vec<u8>,
}

/// A drive that takes commands.
pub(crate) trait Passthrough {
    /// Runs an NVMe admin command; the answer is the status field without
    /// its phase tag (NVMe base 2.0, figure 93), 0 for success.
    fn nvme(&self, command: &nvme::Admin, data: &mut [u8]) -> io::Result<u32>;

    /// Number of the NVMe namespace.
    fn namespace(&self) -> io::Result<u32>;

    /// Runs a SCSI command.
    fn scsi(&self, cdb: &[u8], transfer: Transfer<'_>, limit: Duration) -> io::Result<ScsiReply>;

    /// Has a range discarded so that no copy of it stays. `EOPNOTSUPP` comes
    /// before anything else is looked at.
    fn secure_discard(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Lets time pass between two looks at a long operation.
    fn pause(&self, time: Duration);
}
