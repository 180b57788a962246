//! How a command says that it failed.

use wrought_wire::command::CommandError;
use wrought_wire::command::CommandStatus;

/// A failed command, as the conductor will read it in `command_error`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}: {}", .error.message, .error.details)]
pub struct CommandFailure {
    /// [`CommandStatus::Failed`] or [`CommandStatus::VersionMismatch`].
    pub status: CommandStatus,
    /// Class, HTTP code, sentence and the whole story.
    pub error: CommandError,
}

impl CommandFailure {
    /// A failure of a class of its own: `kind` such as `ImageDownloadError`,
    /// an HTTP status that fits, one sentence that is the same for the whole
    /// class, and the details: object, expected, found, what to do.
    pub fn new(kind: &str, code: u16, message: &str, details: impl Into<String>) -> Self {
        let error = CommandError {
            kind: kind.to_owned(),
            code,
            message: message.to_owned(),
            details: details.into(),
        };
        Self {
            status: CommandStatus::Failed,
            error,
        }
    }

    /// The general failure of a command that ran.
    pub fn execution(details: impl Into<String>) -> Self {
        Self::new(
            "CommandExecutionError",
            500,
            "Command execution failed",
            details,
        )
    }

    /// Parameters that the command cannot work with.
    pub fn invalid_params(details: impl Into<String>) -> Self {
        Self::new(
            "InvalidCommandParamsError",
            400,
            "Invalid command parameters",
            details,
        )
    }

    /// No disk, partition or other device that fits.
    pub fn device_not_found(details: impl Into<String>) -> Self {
        Self::new(
            "DeviceNotFound",
            404,
            "Error finding the disk or partition device",
            details,
        )
    }

    /// The step list was made by another version of the hardware managers;
    /// the conductor asks for the steps again.
    pub fn version_mismatch(details: impl Into<String>) -> Self {
        let mut failure = Self::new(
            "VersionMismatch",
            409,
            "Hardware managers version mismatch, reload agent with correct version",
            details,
        );
        failure.status = CommandStatus::VersionMismatch;
        failure
    }

    /// An error with all its causes, joined by colons.
    pub fn chain(error: &dyn std::error::Error) -> String {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        text
    }
}
