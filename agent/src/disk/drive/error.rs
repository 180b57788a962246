//! What can go wrong between us and a drive.

use std::io;

/// A drive that does not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The command did not reach the drive, or no answer came.
    #[error("the command {command} could not be sent")]
    Send {
        /// Its name in the standard.
        command: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The drive refused the command.
    #[error("the drive answered {command} with {answer}")]
    Refused {
        /// Its name in the standard.
        command: &'static str,
        /// Status and what it means.
        answer: String,
    },
    /// The answer cannot be used.
    #[error("the drive's answer to {command} {wrong}")]
    Answer {
        /// Its name in the standard.
        command: &'static str,
        /// What is wrong with it.
        wrong: &'static str,
    },
    /// The command was taken and did not end well.
    #[error("the drive took {command}, which failed: {detail}")]
    Failed {
        /// Its name in the standard.
        command: &'static str,
        /// What the drive says of it.
        detail: String,
    },
    /// A long operation no longer moves.
    #[error("{command} has made no progress for {hours} hours")]
    Stalled {
        /// Its name in the standard.
        command: &'static str,
        /// How long.
        hours: u64,
    },
    /// Firmware has frozen the drive's security commands.
    #[error(
        "the drive's security is frozen until its next power cycle, usually by the firmware: \
         switch that off in the firmware's settings, or set \
         driver_internal_info.agent_continue_if_secure_erase_failed to overwrite it instead"
    )]
    Frozen,
    /// Sanitize commands are frozen.
    #[error("the drive's sanitize commands are frozen until its next power cycle")]
    SanitizeFrozen,
    /// The drive is locked with a password that we do not know.
    #[error(
        "the drive is locked with an ATA password that is not ours{expired}; unlock it or replace it"
    )]
    Locked {
        /// A further remark, or empty.
        expired: &'static str,
    },
    /// The agent is told to stop; the drive goes on by itself.
    #[error("the agent is shutting down; the drive goes on with {command} by itself")]
    Cancelled {
        /// Its name in the standard.
        command: &'static str,
    },
}
