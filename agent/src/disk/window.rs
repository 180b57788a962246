//! A part of a disk as a stream of its own, with a limit to the work that
//! reading a broken file system in it can cost.

use std::io;
use std::io::Read;
use std::io::Seek;
use std::io::SeekFrom;
use std::io::Write;

use crate::disk::block::BlockFile;

/// Bytes `start..start + length` of a disk.
#[derive(Debug)]
pub struct Window<'a> {
    disk: &'a BlockFile,
    start: u64,
    length: u64,
    position: u64,
    writable: bool,
    budget: u64,
}

impl<'a> Window<'a> {
    /// A window to read from; at most `budget` bytes in all, since a chain
    /// of clusters may go round in a circle.
    pub fn reader(disk: &'a BlockFile, start: u64, length: u64, budget: u64) -> Self {
        Self {
            disk,
            start,
            length,
            position: 0,
            writable: false,
            budget,
        }
    }

    /// A window to read and write.
    pub fn writer(disk: &'a BlockFile, start: u64, length: u64) -> Self {
        Self {
            disk,
            start,
            length,
            position: 0,
            writable: true,
            budget: u64::MAX,
        }
    }

    /// How much of a buffer fits before the end.
    fn fitting(&self, buffer: usize) -> usize {
        let left = self.length.saturating_sub(self.position);
        usize::try_from(left).unwrap_or(usize::MAX).min(buffer)
    }
}

impl Read for Window<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let fitting = self.fitting(buffer.len());
        if fitting as u64 > self.budget {
            return Err(io::Error::other(
                "the file system asks for more reads than a sound one needs; it may be damaged",
            ));
        }
        self.budget -= fitting as u64;
        let offset = self.start + self.position;
        self.disk
            .read_at(&mut buffer[..fitting], offset)
            .map_err(io::Error::other)?;
        self.position += fitting as u64;
        Ok(fitting)
    }
}

impl Write for Window<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if !self.writable {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let fitting = self.fitting(buffer.len());
        if fitting == 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let offset = self.start + self.position;
        self.disk
            .write_at(&buffer[..fitting], offset)
            .map_err(io::Error::other)?;
        self.position += fitting as u64;
        Ok(fitting)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Window<'_> {
    fn seek(&mut self, target: SeekFrom) -> io::Result<u64> {
        let position = match target {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(offset) => self.length.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "seek before the start of the partition",
            )
        })?;
        Ok(self.position)
    }
}
