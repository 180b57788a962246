//! Drives made of bytes: each answers as its standard has it, in answers
//! that are put together field by field, and erases a plain file.

mod ata;
mod nvme;
mod scsi;

pub(crate) use ata::Ata;
pub(crate) use ata::Security;
pub(crate) use ata::Wrapping;
pub(crate) use nvme::Nvme;
pub(crate) use scsi::Scsi;

use std::fs::File;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use crate::disk::drive::Passthrough;
use crate::disk::drive::ScsiReply;
use crate::disk::drive::Transfer;
use crate::disk::drive::nvme::Admin;

/// What the drive keeps its data on.
#[derive(Debug, Default)]
pub(crate) struct Medium {
    path: PathBuf,
    /// Says that it erased, and does not.
    pub(crate) lies: bool,
    log: Mutex<Vec<String>>,
}

impl Medium {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            ..Self::default()
        }
    }

    /// All data is gone.
    fn erase(&self) {
        if self.lies {
            return;
        }
        let file = File::options().write(true).open(&self.path).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(0).unwrap();
        file.set_len(length).unwrap();
    }

    fn note(&self, what: String) {
        self.log.lock().unwrap().push(what);
    }

    /// What the drive was told, without questions.
    pub(crate) fn told(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

/// A sanitize as the doubles play it: progress seen at each look, then the
/// end. The same for all three, the bytes are each one's own.
#[derive(Debug, Default)]
pub(crate) struct Play {
    /// Parts of 65536 that are shown, one a look.
    pub(crate) progress: Vec<u16>,
    /// It ends in a failure.
    pub(crate) fails: bool,
    /// How far the play is; `None` when nothing runs.
    pub(crate) running: Option<usize>,
    /// What the last look saw at the end.
    pub(crate) ended: Option<bool>,
}

/// One look at the play.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Idle,
    Running(u16),
    Succeeded,
    Failed,
}

impl Play {
    /// One that is running when the agent comes.
    pub(crate) fn interrupted(progress: Vec<u16>, fails: bool) -> Self {
        Self {
            progress,
            fails,
            running: Some(0),
            ended: None,
        }
    }

    fn start(&mut self) {
        self.running = Some(0);
        self.ended = None;
    }

    fn look(&mut self, medium: &Medium) -> Look {
        if let Some(at) = self.running {
            if let Some(part) = self.progress.get(at) {
                self.running = Some(at + 1);
                return Look::Running(*part);
            }
            self.running = None;
            self.ended = Some(!self.fails);
            if !self.fails {
                medium.erase();
            }
        }
        match self.ended {
            None => Look::Idle,
            Some(true) => Look::Succeeded,
            Some(false) => Look::Failed,
        }
    }
}

fn unexpected(what: &str) -> io::Error {
    io::Error::other(format!("{what} was sent to the wrong kind of drive"))
}

/// A device with a secure discard, or without.
#[derive(Debug)]
pub(crate) struct Plain {
    pub(crate) medium: Medium,
    /// The command is there.
    pub(crate) there: bool,
    /// It fails with this.
    pub(crate) error: Option<i32>,
}

impl Passthrough for &Plain {
    fn nvme(&self, _: &Admin, _: &mut [u8]) -> io::Result<u32> {
        Err(unexpected("an NVMe command"))
    }

    fn namespace(&self) -> io::Result<u32> {
        Err(unexpected("an NVMe command"))
    }

    fn scsi(&self, _: &[u8], _: Transfer<'_>, _: Duration) -> io::Result<ScsiReply> {
        Err(unexpected("a SCSI command"))
    }

    /// As `blk_ioctl_secure_erase` of Linux does it: support, then alignment.
    fn secure_discard(&self, offset: u64, length: u64) -> io::Result<()> {
        if !self.there {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        if !offset.is_multiple_of(512) || !length.is_multiple_of(512) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        if let Some(error) = self.error {
            return Err(io::Error::from_raw_os_error(error));
        }
        self.medium.note(format!("discard {offset} {length}"));
        self.medium.erase();
        Ok(())
    }

    fn pause(&self, _: Duration) {}
}
