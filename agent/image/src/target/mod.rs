//! The disk that is written: claiming it, writing, zeroing, flushing.

mod claim;
mod ends;
#[cfg(test)]
pub(crate) mod fault;
mod ioctl;
mod lane;
mod ring;
mod users;
mod write;
mod zero;

pub(crate) use ends::END;
pub(crate) use lane::Lane;
pub(crate) use lane::Scratch;
pub(crate) use ring::Payload;
pub(crate) use write::Bounce;

use std::fs;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::request::Layout;

/// What is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetKind {
    /// A block device.
    Block,
    /// A plain file whose size counts as the disk's size.
    File,
    /// A plain file that was empty or not there: it takes the image's size,
    /// and what is not written in it is zero.
    NewFile,
}

/// A claimed disk. It stays claimed until dropped.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
    kind: TargetKind,
    /// Through the page cache; holds the claim.
    file: File,
    /// Past the page cache, where the target can do that.
    direct: Option<File>,
    /// Cleared when the device turns out to refuse direct writes.
    use_direct: AtomicBool,
    /// Cleared when the kernel turns out to have no io_uring for us.
    use_ring: AtomicBool,
    size: AtomicU64,
    sector_size: u32,
    is_partition: bool,
    /// The file was not there before.
    made: bool,
    /// Unit of direct writes in bytes.
    unit: usize,
    /// Which way of zeroing works; see `zero`.
    zeroing: AtomicU8,
    #[cfg(test)]
    pub(crate) faults: fault::Faults,
}

impl Target {
    /// The path as the caller gave it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn kind(&self) -> TargetKind {
        self.kind
    }

    /// Size in bytes; 0 for a new file before [`resize`](Self::resize).
    pub(crate) fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// Logical sector size in bytes; 512 for plain files.
    pub(crate) fn sector_size(&self) -> u32 {
        self.sector_size
    }

    /// Takes the caller's word for what an image fills here.
    pub(crate) fn with_layout(mut self, layout: Layout) -> Self {
        match layout {
            Layout::Auto => {}
            Layout::Disk => self.is_partition = false,
            Layout::Partition => self.is_partition = true,
        }
        self
    }

    /// Whether an image fills one partition here, and not a disk.
    pub(crate) fn is_partition(&self) -> bool {
        self.is_partition
    }

    pub(crate) fn error(&self, stage: Stage, text: &str, offset: u64, cause: io::Error) -> Error {
        let context = format!("{text} {}", self.path.display());
        Error::new(ErrorKind::Target, stage, context)
            .at(offset)
            .caused_by(cause)
    }

    /// Gives a new file its size; anything else keeps its own.
    pub(crate) fn resize(&self, size: u64) -> Result<(), Error> {
        if self.kind == TargetKind::NewFile {
            self.file
                .set_len(size)
                .map_err(|error| self.error(Stage::Write, "resize", size, error))?;
            self.size.store(size, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Leaves a new file as it was found, or not at all, when nothing was
    /// written to it.
    pub(crate) fn undo(&self) {
        let done = match self.kind {
            TargetKind::NewFile if self.made => fs::remove_file(&self.path),
            TargetKind::NewFile => self.file.set_len(0),
            TargetKind::File | TargetKind::Block => Ok(()),
        };
        if let Err(error) = done {
            tracing::warn!(target = %self.path.display(), err = %error, "cannot undo it");
        }
    }

    /// Reads up to `buf.len()` bytes at `offset`, past the page cache where
    /// the target can do that. `buf` is aligned to [`ALIGN`].
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> Result<(), Error> {
        let fail = |error| self.error(Stage::ReadBack, "read", offset, error);
        let aligned = offset.is_multiple_of(self.unit as u64)
            && buf.len().is_multiple_of(self.unit)
            && buf.as_ptr().addr().is_multiple_of(self.unit);
        let direct = self.direct.as_ref().filter(|_| aligned);
        let result = match direct.map(|direct| direct.read_exact_at(buf, offset)) {
            Some(Err(error)) if write::refuses_direct(&error) => self.read_cached(buf, offset),
            Some(result) => result,
            None => self.read_cached(buf, offset),
        };
        #[cfg(test)]
        self.faults.read(buf, offset);
        result.map_err(fail)
    }

    /// Reads through the page cache, from which the range is dropped before.
    fn read_cached(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let (at, len) = (
            libc::off_t::try_from(offset).unwrap_or(0),
            libc::off_t::try_from(buf.len()).unwrap_or(0),
        );
        // SAFETY: a valid descriptor; the call touches no memory of ours.
        unsafe { libc::posix_fadvise(self.file.as_raw_fd(), at, len, libc::POSIX_FADV_DONTNEED) };
        self.file.read_exact_at(buf, offset)
    }

    /// Puts everything written so far on stable storage.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        #[cfg(test)]
        self.faults
            .flush()
            .map_err(|error| self.error(Stage::Flush, "flush", 0, error))?;
        self.file
            .sync_all()
            .map_err(|error| self.error(Stage::Flush, "flush", 0, error))
    }

    /// Has the kernel read the partition table again; plain files have none.
    pub(crate) fn reread_table(&self) -> Result<(), Error> {
        if self.kind != TargetKind::Block {
            return Ok(());
        }
        ioctl::reread_partitions(&self.file).map_err(|error| {
            self.error(Stage::Finish, "have the kernel read the table of", 0, error)
        })
    }
}
