//! Exit codes (sysexits) and how a failure gets one.

use std::fmt;
use std::process::ExitCode;

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The operation was carried out and ended badly: 1.
    Failed,
    /// Wrong command line or configuration: 64.
    Usage,
    /// Wrong input: 65.
    Data,
    /// Something that is needed does not answer, or is not built: 69.
    Unavailable,
    /// The program itself: 70.
    Internal,
    /// Files and devices: 74.
    Io,
    /// Not in time; may work later: 75.
    TimedOut,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 64,
            Self::Data => 65,
            Self::Unavailable => 69,
            Self::Internal => 70,
            Self::Io => 74,
            Self::TimedOut => 75,
        }
    }
}

/// A failure that knows its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) error: anyhow::Error,
}

/// Outcome of a command.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl fmt::Display) -> Self {
        Self {
            kind,
            error: anyhow::anyhow!("{message}"),
        }
    }

    /// Prints the error with its causes and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("wrought: {:#}", self.error);
        ExitCode::from(self.kind.code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.error)
    }
}

/// Gives an error its kind.
pub(crate) trait OrExit<T> {
    /// `self`, failing with that kind.
    fn or_exit(self, kind: Kind) -> Outcome<T>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for Result<T, E> {
    fn or_exit(self, kind: Kind) -> Outcome<T> {
        self.map_err(|error| Failure {
            kind,
            error: error.into(),
        })
    }
}
