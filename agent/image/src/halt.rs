//! Why a decoder stopped: it failed itself, or somebody else did.

use wrought_formats::qcow2;

use crate::control::Stopped;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;

#[derive(Debug)]
pub(crate) enum Halt {
    /// The reason is in the shared [`Control`](crate::control::Control).
    Stopped,
    /// The reason is here.
    Failed(Error),
}

impl From<Stopped> for Halt {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<qcow2::Error> for Halt {
    fn from(error: qcow2::Error) -> Self {
        Self::Failed(refused(error))
    }
}

/// A qcow2 image that is not written, as this crate's error.
pub(crate) fn refused(error: qcow2::Error) -> Error {
    let text = match error {
        qcow2::Error::Short { .. }
        | qcow2::Error::Field { .. }
        | qcow2::Error::Table { .. }
        | qcow2::Error::Entry { .. } => "the qcow2 image is damaged or cut off",
        _ => "the qcow2 image cannot be written",
    };
    Error::new(ErrorKind::Format, Stage::Decode, text).caused_by(error)
}
