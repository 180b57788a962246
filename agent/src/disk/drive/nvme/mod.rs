//! NVMe's own erase: Sanitize and Format NVM.
//!
//! Section and figure numbers are those of the NVM Express base
//! specification 2.0 and NVM command set specification 1.0.

mod identify;
mod sanitize;

pub(crate) use identify::Abilities;
pub(crate) use sanitize::NvmeSanitizer;

use std::time::Duration;

use crate::disk::drive::DriveError;
use crate::disk::drive::Passthrough;

/// Opcodes of admin commands (figure 138).
pub(crate) const GET_LOG_PAGE: u8 = 0x02;
pub(crate) const IDENTIFY: u8 = 0x06;
pub(crate) const FORMAT: u8 = 0x80;
pub(crate) const SANITIZE: u8 = 0x84;
/// All namespaces.
pub(crate) const EVERY_NAMESPACE: u32 = 0xffff_ffff;
/// A large drive without cryptographic erase may take hours.
const FORMAT_LIMIT: Duration = Duration::from_secs(12 * 3600);
const SHORT_LIMIT: Duration = Duration::from_secs(60);

/// An admin command, as far as ours have parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Admin {
    /// Opcode.
    pub(crate) opcode: u8,
    /// Namespace.
    pub(crate) nsid: u32,
    /// Command dword 10.
    pub(crate) cdw10: u32,
    /// Command dword 11.
    pub(crate) cdw11: u32,
    /// How long it may take.
    pub(crate) limit: Duration,
}

/// What a format does to the data (figure 330, SES).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatErase {
    /// All user data is erased; how is the drive's affair.
    UserData,
    /// The encryption key is changed.
    Crypto,
}

impl FormatErase {
    fn ses(self) -> u32 {
        match self {
            Self::UserData => 1,
            Self::Crypto => 2,
        }
    }
}

/// Formats a namespace as it is formatted now, its data erased.
pub(crate) fn format(
    drive: &dyn Passthrough,
    namespace: u32,
    abilities: &Abilities,
    erase: FormatErase,
) -> Result<(), DriveError> {
    let command = Admin {
        opcode: FORMAT,
        nsid: namespace,
        cdw10: abilities.layout | erase.ses() << 9,
        limit: FORMAT_LIMIT,
        ..Admin::default()
    };
    submit(drive, "Format NVM", &command, &mut [])
}

/// Sends a command that must succeed.
fn submit(
    drive: &dyn Passthrough,
    name: &'static str,
    command: &Admin,
    data: &mut [u8],
) -> Result<(), DriveError> {
    let status = drive
        .nvme(command, data)
        .map_err(|source| DriveError::Send {
            command: name,
            source,
        })?;
    if status == 0 {
        return Ok(());
    }
    Err(DriveError::Refused {
        command: name,
        answer: status_text(status),
    })
}

/// Status code and its type (figures 94 to 99).
fn status_text(status: u32) -> String {
    let code = status & 0x7ff;
    let meaning = match code {
        0x001 => " (invalid command opcode)",
        0x002 => " (invalid field in command)",
        0x006 => " (internal error)",
        0x00b => " (invalid namespace or format)",
        0x00c => " (command sequence error)",
        0x01c => " (sanitize failed)",
        0x01d => " (sanitize in progress)",
        0x020 => " (namespace is write protected)",
        0x10a => " (invalid format)",
        0x10b => " (firmware activation requires a reset)",
        _ => "",
    };
    format!("status {code:#05x}{meaning}")
}
