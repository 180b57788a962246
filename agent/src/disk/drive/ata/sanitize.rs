//! ATA's SANITIZE DEVICE commands.

use crate::disk::drive::DriveError;
use crate::disk::drive::Passthrough;
use crate::disk::drive::Transfer;
use crate::disk::drive::ata::SHORT_LIMIT;
use crate::disk::drive::ata::TaskFile;
use crate::disk::drive::ata::submit;
use crate::disk::drive::sanitize::Action;
use crate::disk::drive::sanitize::Sanitizer;
use crate::disk::drive::sanitize::State;

/// SANITIZE DEVICE (ACS-4 §7.38).
pub(crate) const SANITIZE_DEVICE: u8 = 0xb4;
/// Feature field, which tells the commands apart.
const STATUS: u16 = 0x0000;
const CRYPTO_SCRAMBLE: u16 = 0x0011;
const BLOCK_ERASE: u16 = 0x0012;
const OVERWRITE: u16 = 0x0014;
/// Words in the LBA field that keep a stray command from doing harm: "Cryp",
/// "BkEr", and "OW" above a pattern of 32 bits.
const CRYPTO_KEY: u64 = 0x4372_7970;
const BLOCK_KEY: u64 = 0x426b_4572;
const OVERWRITE_KEY: u64 = 0x4f57 << 32;
/// Count field of a start: the failed state may be left (FAILURE MODE), and
/// one pass.
const ALLOW_EXIT: u16 = 1 << 4;
const ONE_PASS: u16 = 1;
/// Count field of a status: leave the failed state.
const CLEAR_FAILURE: u16 = 1;
/// Count field that comes back: done without error, running, frozen.
const DONE: u16 = 1 << 15;
const RUNNING: u16 = 1 << 14;
const FROZEN: u16 = 1 << 13;

/// Sanitize of the drive behind `0`.
pub(crate) struct AtaSanitizer<'a>(pub(crate) &'a dyn Passthrough);

impl AtaSanitizer<'_> {
    fn send(
        &self,
        name: &'static str,
        feature: u16,
        count: u16,
        lba: u64,
    ) -> Result<Option<crate::disk::drive::sense::AtaReturn>, DriveError> {
        let task = TaskFile {
            command: SANITIZE_DEVICE,
            feature,
            count,
            lba,
            extend: true,
        };
        submit(self.0, name, task, Transfer::None, SHORT_LIMIT)
    }
}

impl Sanitizer for AtaSanitizer<'_> {
    fn command(&self) -> &'static str {
        "SANITIZE DEVICE"
    }

    fn state(&self) -> Result<State, DriveError> {
        const NAME: &str = "SANITIZE STATUS EXT";
        let registers = match self.send(NAME, STATUS, 0, 0) {
            // ACS-4 table 119: aborted, because the last one was not
            // successful.
            Err(DriveError::Refused { answer, .. }) => return Ok(State::Failed(answer)),
            other => other?,
        };
        let count = registers
            .and_then(|registers| Some((registers.count?, registers.lba)))
            .ok_or(DriveError::Answer {
                command: NAME,
                wrong: "came back without the drive's registers",
            })?;
        let (count, lba) = count;
        if count & FROZEN != 0 {
            return Err(DriveError::SanitizeFrozen);
        }
        if count & RUNNING != 0 {
            // Progress is LBA 15:0 (ACS-4 table 120).
            let part = u16::try_from(lba & 0xffff).unwrap_or_default();
            return Ok(State::Running(part, None));
        }
        Ok(if count & DONE == 0 {
            State::Never
        } else {
            State::Succeeded
        })
    }

    fn start(&self, action: Action) -> Result<(), DriveError> {
        let (name, feature, count, lba) = match action {
            Action::Crypto => ("CRYPTO SCRAMBLE EXT", CRYPTO_SCRAMBLE, 0, CRYPTO_KEY),
            Action::Block => ("BLOCK ERASE EXT", BLOCK_ERASE, 0, BLOCK_KEY),
            Action::Overwrite => ("OVERWRITE EXT", OVERWRITE, ONE_PASS, OVERWRITE_KEY),
        };
        self.send(name, feature, count | ALLOW_EXIT, lba).map(drop)
    }

    fn leave_failure(&self) -> Result<(), DriveError> {
        self.send("SANITIZE STATUS EXT", STATUS, CLEAR_FAILURE, 0)
            .map(drop)
    }
}
