//! Making ranges read as zero, the cheapest way that guarantees it. Discard
//! alone is never taken for zeroes: devices may return anything afterwards.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use super::Bounce;
use super::Target;
use super::TargetKind;
use super::ioctl;
use crate::buffer::Aligned;
use crate::control::Control;
use crate::error::Error;
use crate::error::Stage;

/// Ways of zeroing, best first; a refused one is not tried again.
const PUNCH: u8 = 0;
const RANGE: u8 = 1;
const ZERO_OUT: u8 = 2;
// Anything above: written zeroes.

/// Ranges are handed to the kernel in pieces, so that a cancel is prompt.
const PIECE: u64 = 64 << 20;
/// Zeroes that are written at a time.
const WRITTEN: usize = 256 << 10;

impl Target {
    /// Makes `len` bytes at `offset` read as zero.
    pub(crate) fn zero(
        &self,
        offset: u64,
        len: u64,
        bounce: &mut Bounce,
        control: &Control,
    ) -> Result<(), Error> {
        if self.kind == TargetKind::NewFile {
            // Never written before: a hole.
            return Ok(());
        }
        let unit = self.unit as u64;
        let end = offset + len;
        let (inner, inner_end) = (offset.next_multiple_of(unit), end - end % unit);
        if inner >= inner_end {
            return self.zero_by_writing(offset, len, bounce, control);
        }
        self.zero_by_writing(offset, inner - offset, bounce, control)?;
        let mut at = inner;
        while at < inner_end && control.running().is_ok() {
            let piece = PIECE.min(inner_end - at);
            self.zero_piece(at, piece, bounce, control)?;
            at += piece;
        }
        self.zero_by_writing(inner_end, end - inner_end, bounce, control)
    }

    fn zero_piece(
        &self,
        offset: u64,
        len: u64,
        bounce: &mut Bounce,
        control: &Control,
    ) -> Result<(), Error> {
        loop {
            let way = self.zeroing.load(Ordering::Relaxed);
            #[cfg(test)]
            self.allow(offset, len as usize)
                .map_err(|error| self.error(Stage::Write, "zero", offset, error))?;
            let result = match way {
                PUNCH => self.allocate(
                    libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                    offset,
                    len,
                ),
                RANGE => self.allocate(
                    libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE,
                    offset,
                    len,
                ),
                ZERO_OUT if self.kind == TargetKind::Block => {
                    ioctl::zero_out(&self.file, offset, len)
                }
                ZERO_OUT => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
                _ => return self.zero_by_writing(offset, len, bounce, control),
            };
            match result.map_err(|error| (error.raw_os_error(), error)) {
                Ok(()) => return Ok(()),
                Err((
                    Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::ENOTTY),
                    error,
                )) => {
                    tracing::debug!(way, err = %error, "way of zeroing refused");
                    // Another thread may have moved on already.
                    self.zeroing.fetch_max(way + 1, Ordering::Relaxed);
                }
                Err((_, error)) => return Err(self.error(Stage::Write, "zero", offset, error)),
            }
        }
    }

    fn allocate(&self, mode: libc::c_int, offset: u64, len: u64) -> io::Result<()> {
        let convert = |value| libc::off_t::try_from(value).map_err(io::Error::other);
        let (offset, len) = (convert(offset)?, convert(len)?);
        loop {
            // SAFETY: a valid descriptor; the call touches no memory of ours.
            if unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset, len) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    fn zero_by_writing(
        &self,
        offset: u64,
        len: u64,
        bounce: &mut Bounce,
        control: &Control,
    ) -> Result<(), Error> {
        if len == 0 {
            return Ok(());
        }
        let zeroes = Aligned::new(WRITTEN);
        let mut done = 0;
        while done < len && control.running().is_ok() {
            let count = (len - done).min(WRITTEN as u64);
            self.write(&zeroes[..count as usize], offset + done, bounce)?;
            done += count;
        }
        Ok(())
    }
}
