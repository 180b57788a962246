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

/// Answers that say that a way does not work here: by the kernel, by the
/// filesystem, or (EREMOTEIO) by a disk that announced it all the same.
const REFUSALS: [i32; 6] = [
    libc::EOPNOTSUPP,
    libc::ENOSYS,
    libc::ENODEV,
    libc::EINVAL,
    libc::ENOTTY,
    libc::EREMOTEIO,
];

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
            #[cfg(test)]
            let result = self
                .faults
                .allow(offset, len as usize)
                .and_then(|_| self.faults.zeroing(way))
                .and(result);
            match result.map_err(|error| (error.raw_os_error(), error)) {
                Ok(()) => return Ok(()),
                Err((Some(errno), error)) if REFUSALS.contains(&errno) => {
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::target::Target;

    const DISK: usize = 1 << 20;

    /// Zeroes ranges of a disk full of ones, from `way` on, with ways that
    /// answer `errno`; returns the way that was left.
    fn check(path: &Path, file: &Path, way: u8, refused: u8, errno: i32) -> u8 {
        fs::write(file, vec![0xff; DISK]).unwrap();
        let target = Target::claim(path).unwrap();
        target.zeroing.store(way, Ordering::Relaxed);
        target.faults.refuse_zeroing(refused, errno);
        let control = Control::default();
        let mut bounce = Bounce::default();
        let mut expected = vec![0xff; DISK];
        for (start, end) in [(0, 4096), (8192 + 512, 65_536 + 1536), (100_864, 101_376)] {
            let len = (end - start) as u64;
            target
                .zero(start as u64, len, &mut bounce, &control)
                .unwrap();
            expected[start..end].fill(0);
        }
        target.flush().unwrap();
        assert!(fs::read(file).unwrap() == expected, "way {way}");
        target.zeroing.load(Ordering::Relaxed)
    }

    #[test]
    fn every_way_of_zeroing_leaves_zeroes_and_its_neighbours() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("disk");
        for way in [PUNCH, RANGE, ZERO_OUT, ZERO_OUT + 1] {
            check(&file, &file, way, 0, 0);
        }
        // Refused: the next one is taken, in the end written zeroes.
        for errno in [libc::EOPNOTSUPP, libc::EINVAL, libc::EREMOTEIO] {
            assert_eq!(check(&file, &file, PUNCH, 1, errno), RANGE);
            assert_eq!(check(&file, &file, PUNCH, 3, errno), ZERO_OUT + 1);
        }
        let attached = Command::new("losetup")
            .args(["-f", "--show"])
            .arg(&file)
            .output();
        let Some(output) = attached.ok().filter(|output| output.status.success()) else {
            return;
        };
        let device = String::from_utf8(output.stdout).unwrap();
        let device = Path::new(device.trim());
        let outcome = std::panic::catch_unwind(|| {
            for way in [PUNCH, RANGE, ZERO_OUT, ZERO_OUT + 1] {
                check(device, &file, way, 0, 0);
            }
            assert_eq!(
                check(device, &file, PUNCH, 3, libc::EOPNOTSUPP),
                ZERO_OUT + 1
            );
        });
        Command::new("losetup")
            .arg("-d")
            .arg(device)
            .status()
            .unwrap();
        outcome.unwrap();
    }

    #[test]
    fn a_disk_that_cannot_zero_is_told_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        fs::write(&path, vec![0xff; DISK]).unwrap();
        let target = Target::claim(&path).unwrap();
        target.faults.refuse_zeroing(1, libc::EIO);
        let (mut bounce, control) = (Bounce::default(), Control::default());
        let error = target.zero(8192, 8192, &mut bounce, &control).unwrap_err();
        assert_eq!((error.stage(), error.offset()), (Stage::Write, Some(8192)));
    }
}
