//! What this agent has written since it was started.

use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::PoisonError;

use crate::managers::Managers;

/// A finished write.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Written {
    /// Id of the image.
    pub(super) id: String,
    /// What the image was checked against, as it was asked for.
    pub(super) expected: Option<String>,
    /// Where it is.
    pub(super) device: PathBuf,
    /// `algorithm:hex`.
    pub(super) digest: String,
    /// Format that was found.
    pub(super) format: String,
    /// Where the image came from, without credentials.
    pub(super) source: String,
    /// Bytes read.
    pub(super) bytes_in: u64,
    /// Bytes of the disk that the image covers.
    pub(super) bytes_out: u64,
    /// How long it took.
    pub(super) seconds: f64,
    /// Disk GUID or MBR signature.
    pub(super) disk_id: String,
}

/// The last finished write, gone as soon as a disk is written or erased
/// again; and what is found out once.
#[derive(Debug, Default)]
pub(super) struct State {
    last: Mutex<Option<Written>>,
    /// The hardware managers, once they were asked for.
    pub(super) managers: OnceLock<Managers>,
}

impl State {
    pub(super) fn last(&self) -> Option<Written> {
        self.last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn set(&self, written: Written) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(written);
    }

    pub(super) fn clear(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The last write, if it was this image to this disk.
    pub(super) fn same(&self, id: &str, expected: Option<&str>, device: &Path) -> Option<Written> {
        self.last().filter(|written| {
            !id.is_empty()
                && written.id == id
                && written.expected.as_deref() == expected
                && written.device == device
        })
    }
}
