//! NVMe's Sanitize command and the log page that follows it.

use crate::disk::drive::DriveError;
use crate::disk::drive::Passthrough;
use crate::disk::drive::nvme::Admin;
use crate::disk::drive::nvme::EVERY_NAMESPACE;
use crate::disk::drive::nvme::GET_LOG_PAGE;
use crate::disk::drive::nvme::SANITIZE;
use crate::disk::drive::nvme::SHORT_LIMIT;
use crate::disk::drive::nvme::submit;
use crate::disk::drive::sanitize::Action;
use crate::disk::drive::sanitize::Sanitizer;
use crate::disk::drive::sanitize::State;

/// The log page (figure 202) and its size (figure 249).
const LOG_SANITIZE_STATUS: u32 = 0x81;
const LOG_BYTES: usize = 512;
/// SANACT (figure 303, bits 2:0).
const EXIT_FAILURE_MODE: u32 = 0b001;
const BLOCK: u32 = 0b010;
const OVERWRITE: u32 = 0b011;
const CRYPTO: u32 = 0b100;
/// AUSE: the failed state may be left by a command.
const ALLOW_EXIT: u32 = 1 << 3;
/// OWPASS, bits 7:4: one pass.
const ONE_PASS: u32 = 1 << 4;

/// Sanitize of the drive behind `0`.
pub(crate) struct NvmeSanitizer<'a>(pub(crate) &'a dyn Passthrough);

impl NvmeSanitizer<'_> {
    fn send(&self, action: u32) -> Result<(), DriveError> {
        let command = Admin {
            opcode: SANITIZE,
            cdw10: action,
            limit: SHORT_LIMIT,
            ..Admin::default()
        };
        submit(self.0, self.command(), &command, &mut [])
    }
}

impl Sanitizer for NvmeSanitizer<'_> {
    fn command(&self) -> &'static str {
        "NVMe Sanitize"
    }

    fn state(&self) -> Result<State, DriveError> {
        let mut page = vec![0_u8; LOG_BYTES];
        let dwords = u32::try_from(LOG_BYTES / 4 - 1).unwrap_or_default();
        let command = Admin {
            opcode: GET_LOG_PAGE,
            nsid: EVERY_NAMESPACE,
            cdw10: LOG_SANITIZE_STATUS | dwords << 16,
            limit: SHORT_LIMIT,
            ..Admin::default()
        };
        submit(
            self.0,
            "Get Log Page (Sanitize Status)",
            &command,
            &mut page,
        )?;
        decode(&page)
    }

    fn start(&self, action: Action) -> Result<(), DriveError> {
        let bits = match action {
            Action::Crypto => CRYPTO,
            Action::Block => BLOCK,
            Action::Overwrite => OVERWRITE | ONE_PASS,
        };
        self.send(bits | ALLOW_EXIT)
    }

    fn leave_failure(&self) -> Result<(), DriveError> {
        self.send(EXIT_FAILURE_MODE)
    }
}

/// Reads the page (figure 249): SPROG in bytes 1:0, SSTAT in 3:2, the dword
/// 10 that started it in 7:4.
fn decode(page: &[u8]) -> Result<State, DriveError> {
    let progress = u16::from_le_bytes([page[0], page[1]]);
    let started = match u32::from(page[4] & 0b111) {
        CRYPTO => Some(Action::Crypto),
        BLOCK => Some(Action::Block),
        OVERWRITE => Some(Action::Overwrite),
        _ => None,
    };
    match page[2] & 0b111 {
        0b000 => Ok(State::Never),
        // 100b: it has deallocated although it was asked not to.
        0b001 | 0b100 => Ok(State::Succeeded),
        0b010 => Ok(State::Running(progress, started)),
        0b011 => {
            let passes = (page[2] >> 3) & 0x1f;
            let detail = match started {
                Some(Action::Overwrite) => {
                    format!("the sanitize status log says so, after {passes} passes")
                }
                _ => "the sanitize status log says so".to_owned(),
            };
            Ok(State::Failed(detail))
        }
        _ => Err(DriveError::Answer {
            command: "Get Log Page (Sanitize Status)",
            wrong: "has a status that the standard does not know",
        }),
    }
}
