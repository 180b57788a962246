//! Sanitize: one operation that NVMe, ATA and SCSI drives have in their own
//! words. It takes all media of a drive, goes on after a loss of power, and
//! either ends well or leaves the drive in a failed state.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::disk::drive::DriveError;
use crate::disk::drive::Passthrough;

/// Between two looks at a drive that sanitizes.
const PAUSE: Duration = Duration::from_secs(1);
/// A drive that has not moved for so long is given up: the largest need
/// about two days for all, and count in 65536 parts.
const STALL_HOURS: u64 = 6;

/// How the media are made unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The key of the media's encryption is changed.
    Crypto,
    /// All blocks are erased by what the media have for it.
    Block,
    /// All media are overwritten.
    Overwrite,
}

/// What a drive says of its last sanitize.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// There was none.
    Never,
    /// One is running: parts of 65536 that are done, where known, and which.
    Running(u16, Option<Action>),
    /// It ended well.
    Succeeded,
    /// It failed, and the drive refuses reads and writes.
    Failed(String),
}

/// A drive that can sanitize.
pub(crate) trait Sanitizer {
    /// Name of the command.
    fn command(&self) -> &'static str;
    /// Looks at the last operation.
    fn state(&self) -> Result<State, DriveError>;
    /// Starts one; returns at once.
    fn start(&self, action: Action) -> Result<(), DriveError>;
    /// Makes the drive usable again after a failure.
    fn leave_failure(&self) -> Result<(), DriveError>;
}

/// Who is told of progress, in parts of 65536.
pub(crate) type OnPart<'a> = &'a dyn Fn(u64);

/// Sanitizes from start to end.
pub(crate) fn run(
    drive: &dyn Passthrough,
    sanitizer: &dyn Sanitizer,
    action: Action,
    cancel: &AtomicBool,
    on_part: OnPart<'_>,
) -> Result<(), DriveError> {
    sanitizer.start(action)?;
    wait(drive, sanitizer, cancel, on_part)
}

/// Waits for a running operation, whoever has started it.
pub(crate) fn wait(
    drive: &dyn Passthrough,
    sanitizer: &dyn Sanitizer,
    cancel: &AtomicBool,
    on_part: OnPart<'_>,
) -> Result<(), DriveError> {
    let command = sanitizer.command();
    let (mut last, mut idle) = (None, Duration::ZERO);
    loop {
        let failed = match sanitizer.state()? {
            State::Running(part, _) => {
                on_part(u64::from(part));
                if last.replace(part) == Some(part) {
                    idle += PAUSE;
                } else {
                    idle = Duration::ZERO;
                }
                if idle >= Duration::from_secs(STALL_HOURS * 3600) {
                    let hours = STALL_HOURS;
                    return Err(DriveError::Stalled { command, hours });
                }
                if cancel.load(Ordering::Relaxed) {
                    return Err(DriveError::Cancelled { command });
                }
                drive.pause(PAUSE);
                continue;
            }
            State::Succeeded => return Ok(()),
            State::Never => "the drive knows of no such operation afterwards".to_owned(),
            State::Failed(detail) => detail,
        };
        // What failed is not erased, but the drive shall take the next means.
        if let Err(error) = sanitizer.leave_failure() {
            tracing::warn!(%error, "the drive stays in the failed state");
        }
        let detail = failed;
        return Err(DriveError::Failed { command, detail });
    }
}
