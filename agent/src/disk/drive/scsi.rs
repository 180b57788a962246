//! SCSI's own erase: SANITIZE (SBC-4, INCITS 506).

use std::time::Duration;

use crate::disk::drive::DriveError;
use crate::disk::drive::Passthrough;
use crate::disk::drive::ScsiReply;
use crate::disk::drive::Transfer;
use crate::disk::drive::sanitize::Action;
use crate::disk::drive::sanitize::Sanitizer;
use crate::disk::drive::sanitize::State;
use crate::disk::drive::sense;

/// Operation codes (SPC-5 table E.2; SBC-4 §5.29).
pub(crate) const REQUEST_SENSE: u8 = 0x03;
pub(crate) const SANITIZE: u8 = 0x48;
pub(crate) const MAINTENANCE_IN: u8 = 0xa3;
/// Service action of MAINTENANCE IN: REPORT SUPPORTED OPERATION CODES.
const SUPPORTED_CODES: u8 = 0x0c;
/// Its reporting option: one command with a service action (SPC-5 table 250).
const ONE_COMMAND: u8 = 0b010;
/// SUPPORT of its answer (SPC-5 table 253): as the standard has it.
const SUPPORTED: u8 = 0b011;
/// SANITIZE service actions (SBC-4 table 92).
const OVERWRITE: u8 = 0x01;
const BLOCK_ERASE: u8 = 0x02;
const CRYPTOGRAPHIC_ERASE: u8 = 0x03;
const EXIT_FAILURE_MODE: u8 = 0x1f;
/// Byte 1: return at once; the failed state may be left by a command.
const IMMED: u8 = 1 << 7;
const AUSE: u8 = 1 << 5;
/// Additional sense codes (SPC-5 annex F).
const IN_PROGRESS: (u8, u8) = (0x04, 0x1b);
const FAILED: (u8, u8) = (0x31, 0x03);
const SHORT_LIMIT: Duration = Duration::from_secs(60);
/// How often a device may announce something before it does what it is told.
const ANNOUNCEMENTS: u32 = 8;
/// Room for sense as data: 252 is its largest (SPC-5 §4.5.1).
const SENSE_BYTES: u8 = 252;

fn action_code(action: Action) -> u8 {
    match action {
        Action::Crypto => CRYPTOGRAPHIC_ERASE,
        Action::Block => BLOCK_ERASE,
        Action::Overwrite => OVERWRITE,
    }
}

/// Kinds of sanitize that the device says it has, the best first. One that
/// cannot be asked has none.
pub(crate) fn abilities(drive: &dyn Passthrough) -> Result<Vec<Action>, DriveError> {
    let mut found = Vec::new();
    for action in [Action::Crypto, Action::Block, Action::Overwrite] {
        // SPC-5 table 249: options, opcode, service action, length.
        let mut cdb = [0_u8; 12];
        cdb[..4].copy_from_slice(&[MAINTENANCE_IN, SUPPORTED_CODES, ONE_COMMAND, SANITIZE]);
        cdb[5] = action_code(action);
        let mut answer = [0_u8; 64];
        cdb[9] = 64;
        let reply = send(
            drive,
            "REPORT SUPPORTED OPERATION CODES",
            &cdb,
            Transfer::In(&mut answer),
        )?;
        if reply.status == 0 && answer[1] & 0b111 == SUPPORTED {
            found.push(action);
        }
    }
    Ok(found)
}

/// Sends a command, again while the device has something to announce first
/// (unit attention, SAM-5 §5.14).
fn send(
    drive: &dyn Passthrough,
    command: &'static str,
    cdb: &[u8],
    mut transfer: Transfer<'_>,
) -> Result<ScsiReply, DriveError> {
    let mut announcements = 0;
    loop {
        let again = match &mut transfer {
            Transfer::None => Transfer::None,
            Transfer::In(buffer) => Transfer::In(buffer),
            Transfer::Out(buffer) => Transfer::Out(buffer),
        };
        let reply = drive
            .scsi(cdb, again, SHORT_LIMIT)
            .map_err(|source| DriveError::Send { command, source })?;
        let sense = sense::parse(&reply.sense).filter(|_| reply.status != 0);
        let announces = sense.is_some_and(|sense| sense.key == sense::UNIT_ATTENTION);
        if !announces || announcements == ANNOUNCEMENTS {
            return Ok(reply);
        }
        announcements += 1;
    }
}

/// Sanitize of the device behind `0`.
pub(crate) struct ScsiSanitizer<'a>(pub(crate) &'a dyn Passthrough);

impl ScsiSanitizer<'_> {
    fn sanitize(&self, flags: u8, parameters: &[u8]) -> Result<(), DriveError> {
        let command = self.command();
        let mut cdb = [0_u8; 10];
        (cdb[0], cdb[1]) = (SANITIZE, flags);
        // SBC-4 table 91: parameter list length in bytes 7 and 8.
        let length = u16::try_from(parameters.len()).unwrap_or_default();
        cdb[7..9].copy_from_slice(&length.to_be_bytes());
        let transfer = if parameters.is_empty() {
            Transfer::None
        } else {
            Transfer::Out(parameters)
        };
        let reply = send(self.0, command, &cdb, transfer)?;
        if reply.status == 0 {
            return Ok(());
        }
        let answer = match sense::parse(&reply.sense) {
            Some(sense) => format!(
                "sense key {:#x}, code {:#04x}/{:#04x}",
                sense.key, sense.asc, sense.ascq
            ),
            None => format!("SCSI status {:#04x}", reply.status),
        };
        Err(DriveError::Refused { command, answer })
    }
}

impl Sanitizer for ScsiSanitizer<'_> {
    fn command(&self) -> &'static str {
        "SANITIZE"
    }

    /// REQUEST SENSE tells of it, as data (SBC-4 §4.11.3).
    fn state(&self) -> Result<State, DriveError> {
        const NAME: &str = "REQUEST SENSE";
        // DESC = 0: the fixed format, which every device has.
        let cdb = [REQUEST_SENSE, 0, 0, 0, SENSE_BYTES, 0];
        let look = || {
            let mut answer = [0_u8; SENSE_BYTES as usize];
            let reply = send(self.0, NAME, &cdb, Transfer::In(&mut answer))?;
            // Some devices answer with a check condition instead.
            let found = if reply.status == 0 {
                sense::parse(&answer)
            } else {
                sense::parse(&reply.sense)
            };
            found.ok_or(DriveError::Answer {
                command: NAME,
                wrong: "is no sense data",
            })
        };
        let mut found = look()?;
        for _ in 0..ANNOUNCEMENTS {
            if found.key != sense::UNIT_ATTENTION {
                break;
            }
            found = look()?;
        }
        match (found.key, (found.asc, found.ascq)) {
            (sense::NOT_READY, IN_PROGRESS) => {
                Ok(State::Running(found.progress.unwrap_or_default(), None))
            }
            (_, FAILED) => Ok(State::Failed("SANITIZE COMMAND FAILED".to_owned())),
            // Recovered: a warning, such as of its temperature.
            (sense::NO_SENSE | sense::RECOVERED, _) => Ok(State::Succeeded),
            (key, (asc, ascq)) => Err(DriveError::Refused {
                command: NAME,
                answer: format!("sense key {key:#x}, code {asc:#04x}/{ascq:#04x}"),
            }),
        }
    }

    fn start(&self, action: Action) -> Result<(), DriveError> {
        // SBC-4 table 94: one pass, and a pattern of four zero bytes.
        let overwrite = [1, 0, 0, 4, 0, 0, 0, 0];
        let parameters: &[u8] = match action {
            Action::Overwrite => &overwrite,
            Action::Crypto | Action::Block => &[],
        };
        self.sanitize(IMMED | AUSE | action_code(action), parameters)
    }

    fn leave_failure(&self) -> Result<(), DriveError> {
        self.sanitize(EXIT_FAILURE_MODE, &[])
    }
}
