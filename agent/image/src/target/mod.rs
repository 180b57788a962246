//! The disk that is written: claiming it, writing, zeroing, flushing.

mod claim;
#[cfg(test)]
pub(crate) mod fault;
mod ioctl;
mod zero;

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

use crate::buffer::ALIGN;
use crate::buffer::Aligned;
use crate::error::DiskState;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;

/// Bytes at each end of the disk that are zeroed first and on failure, and
/// bytes at each end of the image that are held back: 1 MiB.
pub(crate) const END: u64 = 1 << 20;

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
    size: AtomicU64,
    sector_size: u32,
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

    /// Writes all of `bytes` at `offset`, past the page cache as far as
    /// alignment allows. `bounce` lends aligned memory.
    pub(crate) fn write(
        &self,
        bytes: &[u8],
        offset: u64,
        bounce: &mut Bounce,
    ) -> Result<(), Error> {
        let fail = |at, error| self.error(Stage::Write, "write", at, error);
        #[cfg(test)]
        self.faults
            .hit(offset, bytes.len())
            .map_err(|error| fail(offset, error))?;
        let Some(direct) = self
            .direct
            .as_ref()
            .filter(|_| self.use_direct.load(Ordering::Relaxed))
        else {
            return self
                .file
                .write_all_at(bytes, offset)
                .map_err(|error| fail(offset, error));
        };
        let unit = self.unit as u64;
        let before = usize::try_from(offset.next_multiple_of(unit) - offset).unwrap_or(0);
        let (head, rest) = bytes.split_at(before.min(bytes.len()));
        let (middle, tail) = rest.split_at(rest.len() - rest.len() % self.unit);
        // A unit that is written in part is written through the page cache.
        // Its neighbours in the same page never are written directly: parts
        // occur only where the unit is the page, or in the held-back ends.
        let middle_at = offset + head.len() as u64;
        let tail_at = middle_at + middle.len() as u64;
        self.file
            .write_all_at(head, offset)
            .map_err(|error| fail(offset, error))?;
        self.write_direct(direct, middle, middle_at, bounce)
            .map_err(|error| fail(middle_at, error))?;
        self.file
            .write_all_at(tail, tail_at)
            .map_err(|error| fail(tail_at, error))
    }

    fn write_direct(
        &self,
        direct: &File,
        bytes: &[u8],
        offset: u64,
        bounce: &mut Bounce,
    ) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let result = if bytes.as_ptr().addr().is_multiple_of(self.unit) {
            direct.write_all_at(bytes, offset)
        } else {
            let mut at = offset;
            bytes.chunks(BOUNCE).try_for_each(|chunk| {
                let aligned = &mut bounce.memory()[..chunk.len()];
                aligned.copy_from_slice(chunk);
                let result = direct.write_all_at(aligned, at);
                at += chunk.len() as u64;
                result
            })
        };
        match result {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                // Some filesystems accept the flag and refuse the write.
                tracing::debug!(target = %self.path.display(), "direct writes refused");
                self.use_direct.store(false, Ordering::Relaxed);
                self.file.write_all_at(bytes, offset)
            }
            other => other,
        }
    }

    /// Reads up to `buf.len()` bytes at `offset`, past the page cache where
    /// the target can do that. `buf` is aligned to [`ALIGN`].
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> Result<(), Error> {
        let fail = |error| self.error(Stage::ReadBack, "read", offset, error);
        let aligned = offset.is_multiple_of(self.unit as u64)
            && buf.len().is_multiple_of(self.unit)
            && buf.as_ptr().addr().is_multiple_of(self.unit);
        if aligned
            && let Some(direct) = &self.direct
            && direct.read_exact_at(buf, offset).is_ok()
        {
            return Ok(());
        }
        let (at, len) = (
            libc::off_t::try_from(offset).unwrap_or(0),
            libc::off_t::try_from(buf.len()).unwrap_or(0),
        );
        // SAFETY: a valid descriptor; the call touches no memory of ours.
        unsafe { libc::posix_fadvise(self.file.as_raw_fd(), at, len, libc::POSIX_FADV_DONTNEED) };
        self.file.read_exact_at(buf, offset).map_err(fail)
    }

    /// Puts everything written so far on stable storage.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        self.file
            .sync_all()
            .map_err(|error| self.error(Stage::Flush, "flush", 0, error))
    }

    /// Zeroes the first and last MiB of the disk and flushes.
    pub(crate) fn zero_ends(&self) -> Result<(), Error> {
        let size = self.size();
        let zeroes = Aligned::new(END as usize);
        let mut bounce = Bounce::default();
        let head = END.min(size);
        let tail = END.min(size - head);
        for (offset, len) in [(0, head), (size - tail, tail)] {
            // At most 1 MiB.
            self.write(&zeroes[..len as usize], offset, &mut bounce)?;
        }
        self.flush()
    }

    /// After a failure: makes sure that nothing boots. `extent` is how much
    /// of the disk the image covers.
    pub(crate) fn poison(&self, extent: u64) -> DiskState {
        if self.kind == TargetKind::NewFile && self.size() == 0 {
            // Of unknown length so far: what was written goes altogether.
            return match self.file.set_len(0) {
                Ok(()) => DiskState::EndsZeroed,
                Err(_) => DiskState::Unknown,
            };
        }
        let extent = extent.min(self.size());
        let start = extent.saturating_sub(END);
        let mut bounce = Bounce::default();
        let zeroes = vec![0; usize::try_from(extent - start).unwrap_or(0)];
        let image_end = self.write(&zeroes, start, &mut bounce);
        match image_end.and_then(|()| self.zero_ends()) {
            Ok(()) => DiskState::EndsZeroed,
            Err(error) => {
                tracing::error!(
                    err = error.chain(),
                    "the ends of the disk could not be zeroed"
                );
                // The ends may still have worked out by themselves.
                match self.zero_ends() {
                    Ok(()) => DiskState::EndsZeroed,
                    Err(_) => DiskState::Unknown,
                }
            }
        }
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

/// Bytes that are copied to aligned memory at a time.
const BOUNCE: usize = 256 << 10;

/// Aligned memory for data that is not; made when first needed.
#[derive(Debug, Default)]
pub(crate) struct Bounce(Option<Aligned>);

impl Bounce {
    fn memory(&mut self) -> &mut [u8] {
        self.0
            .get_or_insert_with(|| Aligned::new(BOUNCE.max(ALIGN)))
    }
}
