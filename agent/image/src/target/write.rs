//! Writing bytes at their place, past the page cache as far as that goes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use super::Target;
use crate::buffer::ALIGN;
use crate::buffer::Aligned;
use crate::error::Error;
use crate::error::Stage;

/// How a stretch of bytes is written.
pub(super) struct Parts {
    /// Whole units, past the page cache. What lies before and behind them, in
    /// the held-back ends alone, is written through it.
    pub(super) direct: Range<usize>,
}

/// A failed write and where it failed.
type Failed = (u64, io::Error);

impl Target {
    /// Writes all of `bytes` at `offset`, past the page cache as far as
    /// alignment allows. `bounce` lends aligned memory.
    pub(crate) fn write(
        &self,
        bytes: &[u8],
        offset: u64,
        bounce: &mut Bounce,
    ) -> Result<(), Error> {
        let Parts { direct } = self.parts(bytes, offset);
        let (head, tail) = (0..direct.start, direct.end..bytes.len());
        let place = |part: &Range<usize>| offset + part.start as u64;
        self.write_cached(&bytes[head], offset)?;
        self.write_direct(&bytes[direct.clone()], place(&direct), bounce)
            .map_err(|(at, error)| self.error(Stage::Write, "write", at, error))?;
        self.write_cached(&bytes[tail.clone()], place(&tail))
    }

    /// Says which part of `bytes` goes past the page cache; none where that
    /// does not work.
    pub(super) fn parts(&self, bytes: &[u8], offset: u64) -> Parts {
        if self.direct.is_none() || !self.use_direct.load(Ordering::Relaxed) {
            return Parts { direct: 0..0 };
        }
        // Less than a unit, which is a page at most.
        let before = offset.next_multiple_of(self.unit as u64) - offset;
        let start = (before as usize).min(bytes.len());
        let rest = bytes.len() - start;
        Parts {
            direct: start..start + (rest - rest % self.unit),
        }
    }

    /// Writes through the page cache.
    pub(super) fn write_cached(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.write_all(&self.file, bytes, offset)
            .map_err(|(at, error)| self.error(Stage::Write, "write", at, error))
    }

    fn write_direct(&self, bytes: &[u8], offset: u64, bounce: &mut Bounce) -> Result<(), Failed> {
        let Some(direct) = self.direct.as_ref().filter(|_| !bytes.is_empty()) else {
            return Ok(());
        };
        let result = if bytes.as_ptr().addr().is_multiple_of(self.unit) {
            self.write_all(direct, bytes, offset)
        } else {
            let mut at = offset;
            bytes.chunks(BOUNCE).try_for_each(|chunk| {
                let aligned = &mut bounce.memory()[..chunk.len()];
                aligned.copy_from_slice(chunk);
                let result = self.write_all(direct, aligned, at);
                at += chunk.len() as u64;
                result
            })
        };
        match result {
            Err((_, error)) if refuses_direct(&error) => {
                self.stop_direct("they are refused");
                self.write_all(&self.file, bytes, offset)
            }
            other => other,
        }
    }

    /// Is told that the image comes in pieces of `bytes`. Where a page may be
    /// written in parts, its neighbours must not go past the page cache while
    /// it goes through: all of the image goes through it then.
    pub(crate) fn expect_pieces_of(&self, bytes: u64) {
        if !bytes.is_multiple_of(self.unit as u64) {
            self.stop_direct("the image's pieces are smaller than a unit");
        }
    }

    /// No more writes past the page cache.
    pub(super) fn stop_direct(&self, reason: &str) {
        tracing::debug!(target = %self.path.display(), reason, "no direct writes");
        self.use_direct.store(false, Ordering::Relaxed);
    }

    /// Continues short and interrupted writes.
    fn write_all(&self, file: &File, mut bytes: &[u8], mut at: u64) -> Result<(), Failed> {
        while !bytes.is_empty() {
            let result = self
                .allow(at, bytes.len())
                .and_then(|len| file.write_at(&bytes[..len], at));
            match result {
                Ok(0) => return Err((at, io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    bytes = &bytes[count..];
                    at += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err((at, error)),
            }
        }
        Ok(())
    }

    /// How many of `len` bytes are written at once: all, but for tests.
    #[cfg(not(test))]
    pub(super) fn allow(&self, _: u64, len: usize) -> io::Result<usize> {
        Ok(len)
    }

    #[cfg(test)]
    pub(super) fn allow(&self, at: u64, len: usize) -> io::Result<usize> {
        self.faults.allow(at, len)
    }
}

/// Some filesystems accept the flag and refuse the write.
pub(super) fn refuses_direct(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_small_pieces_goes_through_the_page_cache_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::claim(&dir.path().join("disk")).unwrap();
        if target.direct.is_none() {
            return;
        }
        let bytes = [0; 20_000];
        target.expect_pieces_of(65_536);
        assert_eq!(target.parts(&bytes, 512).direct, 3584..3584 + 16_384);
        target.expect_pieces_of(512);
        assert!(target.parts(&bytes, 512).direct.is_empty());
    }
}
