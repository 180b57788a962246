//! ATA's own erase: Sanitize Device and Security Erase, through the SCSI
//! layer's ATA PASS-THROUGH.
//!
//! Words and commands are those of ACS-4 (INCITS 529), the wrapping that of
//! SAT-4 (INCITS 491).

mod identify;
mod sanitize;
mod security;

pub(crate) use identify::Identity;
pub(crate) use sanitize::AtaSanitizer;
pub(crate) use security::erase;
pub(crate) use security::unlock;

use std::time::Duration;

use crate::disk::drive::DriveError;
use crate::disk::drive::Passthrough;
use crate::disk::drive::Transfer;
use crate::disk::drive::sense;
use crate::disk::drive::sense::AtaReturn;

/// ATA PASS-THROUGH(16) (SAT-4 §12.2.3).
pub(crate) const PASS_THROUGH_16: u8 = 0x85;
/// PROTOCOL values (SAT-4 table 180).
const NON_DATA: u8 = 3;
const PIO_IN: u8 = 4;
const PIO_OUT: u8 = 5;
/// Second byte: registers are wanted back; data comes from the drive; its
/// length is in blocks, and stands in the count field.
const CK_COND: u8 = 1 << 5;
const FROM_DRIVE: u8 = 1 << 3;
const IN_BLOCKS: u8 = 1 << 2;
const BY_COUNT: u8 = 0b10;
/// SCSI status: check condition.
const CHECK_CONDITION: u8 = 0x02;
/// Status register: error, device fault (ACS-4 §6.2).
const ERR: u8 = 1 << 0;
const DF: u8 = 1 << 5;
const SHORT_LIMIT: Duration = Duration::from_secs(30);

/// A command's registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TaskFile {
    /// Command.
    pub(crate) command: u8,
    /// Feature.
    pub(crate) feature: u16,
    /// Count.
    pub(crate) count: u16,
    /// LBA, 48 bits.
    pub(crate) lba: u64,
    /// A 48-bit command.
    pub(crate) extend: bool,
}

impl TaskFile {
    fn cdb(&self, protocol: u8, flags: u8) -> [u8; 16] {
        let [lba0, lba1, lba2, lba3, lba4, lba5, _, _] = self.lba.to_le_bytes();
        let [feature_high, feature] = self.feature.to_be_bytes();
        let [count_high, count] = self.count.to_be_bytes();
        [
            PASS_THROUGH_16,
            protocol << 1 | u8::from(self.extend),
            flags,
            feature_high,
            feature,
            count_high,
            count,
            lba3,
            lba0,
            lba4,
            lba1,
            lba5,
            lba2,
            0,
            self.command,
            0,
        ]
    }
}

/// Runs one command; the registers that it leaves, where they come back.
pub(crate) fn submit(
    drive: &dyn Passthrough,
    name: &'static str,
    task: TaskFile,
    transfer: Transfer<'_>,
    limit: Duration,
) -> Result<Option<AtaReturn>, DriveError> {
    let cdb = match transfer {
        Transfer::None => task.cdb(NON_DATA, CK_COND),
        // Without CK_COND: some translations drop the data with it.
        Transfer::In(_) => task.cdb(PIO_IN, FROM_DRIVE | IN_BLOCKS | BY_COUNT),
        Transfer::Out(_) => task.cdb(PIO_OUT, CK_COND | IN_BLOCKS | BY_COUNT),
    };
    let reply = drive
        .scsi(&cdb, transfer, limit)
        .map_err(|source| DriveError::Send {
            command: name,
            source,
        })?;
    let refused = |answer| {
        Err(DriveError::Refused {
            command: name,
            answer,
        })
    };
    if let Some(registers) = sense::ata_return(&reply.sense) {
        if registers.status & (ERR | DF) != 0 {
            return refused(format!(
                "status {:#04x}, error {:#04x}, LBA {:#x}",
                registers.status, registers.error, registers.lba
            ));
        }
        return Ok(Some(registers));
    }
    match (reply.status, sense::parse(&reply.sense)) {
        (0, _) => Ok(None),
        // Recovered error with no more to say (SPC-5 table 49).
        (CHECK_CONDITION, Some(sense)) if sense.key == sense::RECOVERED => Ok(None),
        (CHECK_CONDITION, Some(sense)) => refused(format!(
            "sense key {:#x}, code {:#04x}/{:#04x}",
            sense.key, sense.asc, sense.ascq
        )),
        (status, _) => refused(format!("SCSI status {status:#04x}")),
    }
}
