//! A disk, or a plain file in its place, opened for reading and writing.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::disk::error::Error;
use crate::disk::ioctl;

/// Zeroes are written in pieces of this size where the device cannot make
/// them itself.
const ZERO_PIECE: usize = 1 << 20;
/// How often, and how long apart, the kernel is asked to read a partition
/// table that is still busy.
const REREAD_ATTEMPTS: u32 = 10;
const REREAD_PAUSE: Duration = Duration::from_millis(300);

/// What for a disk is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only looked at.
    Read,
    /// Written; fails when anything else on this machine uses it.
    Exclusive,
    /// Written beside what uses it: places that are nobody's.
    Shared,
}

/// An open disk.
#[derive(Debug)]
pub struct BlockFile {
    file: File,
    path: PathBuf,
    size: u64,
    logical_sector: u32,
    physical_sector: u32,
    device: bool,
}

impl BlockFile {
    /// Opens a block device, or a plain file, which has sectors of 512
    /// bytes.
    pub fn open(path: &Path, access: Access) -> Result<Self, Error> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(access != Access::Read)
            .custom_flags(libc::O_CLOEXEC);
        let metadata = std::fs::metadata(path).map_err(|e| Error::io("look at", path, e))?;
        let device = metadata.file_type().is_block_device();
        if !device && !metadata.is_file() {
            let kind = io::Error::other("neither a block device nor a plain file");
            return Err(Error::io("open", path, kind));
        }
        if device && access == Access::Exclusive {
            // open(2): without O_CREAT, O_EXCL claims a block device and
            // fails with EBUSY while it is mounted or held.
            options.custom_flags(libc::O_CLOEXEC | libc::O_EXCL);
        }
        let file = options.open(path).map_err(|error| {
            if error.raw_os_error() == Some(libc::EBUSY) {
                let reason = "the kernel refuses exclusive access".to_owned();
                return Error::InUse {
                    path: path.to_owned(),
                    reason,
                };
            }
            Error::io("open", path, error)
        })?;
        let (size, (logical_sector, physical_sector)) = if device {
            let size = ioctl::size(file.as_fd()).map_err(|e| Error::io("size", path, e))?;
            let sectors = ioctl::sector_sizes(file.as_fd());
            (
                size,
                sectors.map_err(|e| Error::io("read the sector size of", path, e))?,
            )
        } else {
            (metadata.len(), (512, 4096))
        };
        let path = path.to_owned();
        Ok(Self {
            file,
            path,
            size,
            logical_sector,
            physical_sector,
            device,
        })
    }

    /// Lets a plain file stand for a disk with other sectors.
    #[must_use]
    pub fn with_sector_size(mut self, bytes: u32) -> Self {
        self.logical_sector = bytes;
        self.physical_sector = bytes.max(self.physical_sector);
        self
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Logical sector size in bytes.
    pub fn logical_sector(&self) -> u32 {
        self.logical_sector
    }

    /// Physical sector size in bytes.
    pub fn physical_sector(&self) -> u32 {
        self.physical_sector
    }

    /// Whether it is a block device and not a plain file.
    pub fn is_device(&self) -> bool {
        self.device
    }

    /// The descriptor, for ioctls.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn check(&self, offset: u64, length: u64) -> Result<(), Error> {
        match offset.checked_add(length) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(Error::OutOfRange {
                path: self.path.clone(),
                offset,
                length,
                size: self.size,
            }),
        }
    }

    /// Fills the buffer from `offset`.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        self.check(offset, buffer.len() as u64)?;
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|e| Error::io("read", &self.path, e))
    }

    /// Reads `length` bytes from `offset`, fewer at the end of the disk.
    pub fn read_some(&self, offset: u64, length: usize) -> Result<Vec<u8>, Error> {
        let left = self.size.saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(length);
        let mut buffer = vec![0; length];
        self.read_at(&mut buffer, offset)?;
        Ok(buffer)
    }

    /// Writes all of the buffer at `offset`.
    pub fn write_at(&self, buffer: &[u8], offset: u64) -> Result<(), Error> {
        self.check(offset, buffer.len() as u64)?;
        self.file
            .write_all_at(buffer, offset)
            .map_err(|e| Error::io("write", &self.path, e))
    }

    /// Makes a range read as zeroes, for certain: by the driver where it
    /// can, written otherwise. Offset and length in whole sectors.
    pub fn zero(&self, offset: u64, length: u64) -> Result<(), Error> {
        self.check(offset, length)?;
        if length == 0 {
            return Ok(());
        }
        if self.device && ioctl::zero_out(self.fd(), offset, length).is_ok() {
            return Ok(());
        }
        let zeroes = vec![0; ZERO_PIECE.min(usize::try_from(length).unwrap_or(ZERO_PIECE))];
        let mut done = 0;
        while done < length {
            let left = usize::try_from(length - done).unwrap_or(usize::MAX);
            let piece = &zeroes[..left.min(zeroes.len())];
            self.write_at(piece, offset + done)?;
            done += piece.len() as u64;
        }
        Ok(())
    }

    /// Puts everything written on the medium.
    pub fn flush(&self) -> Result<(), Error> {
        self.file
            .sync_all()
            .map_err(|e| Error::io("flush", &self.path, e))
    }

    /// Forgets what the page cache holds of the device, so that the next
    /// read comes from the medium.
    pub fn drop_cache(&self) -> Result<(), Error> {
        self.flush()?;
        if self.device {
            ioctl::flush_cache(self.fd())
                .map_err(|e| Error::io("drop the cache of", &self.path, e))?;
        }
        Ok(())
    }

    /// Makes the kernel read the partition table again, patient with those
    /// who still look at the old partitions. Nothing to do for a file.
    pub fn reread_table(&self) -> Result<(), Error> {
        if !self.device {
            return Ok(());
        }
        let mut attempt = 1;
        loop {
            match ioctl::reread_table(self.fd()) {
                Ok(()) => return Ok(()),
                // A device that cannot have partitions.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(()),
                Err(error) if attempt == REREAD_ATTEMPTS => {
                    return Err(Error::io(
                        "read again the partition table of",
                        &self.path,
                        error,
                    ));
                }
                Err(_) => {
                    attempt += 1;
                    thread::sleep(REREAD_PAUSE);
                }
            }
        }
    }

    /// Tells the kernel of one partition; `start` and `length` in bytes.
    /// One that is known already is well.
    pub fn announce_partition(&self, number: u32, start: u64, length: u64) -> Result<(), Error> {
        if !self.device {
            return Ok(());
        }
        match ioctl::add_partition(self.fd(), number, start, length) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(()),
            result => result.map_err(|e| Error::io("add a partition to", &self.path, e)),
        }
    }
}
