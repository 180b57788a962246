//! Both ends of the disk: nothing boots while they are zero.

use super::Bounce;
use super::Target;
use super::TargetKind;
use crate::buffer::ALIGN;
use crate::buffer::Aligned;
use crate::error::DiskState;
use crate::error::Error;

/// Bytes at each end of the disk that are zeroed first and on failure, and
/// bytes at each end of the image that are held back: 1 MiB.
pub(crate) const END: u64 = 1 << 20;

impl Target {
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
        let size = self.size();
        if self.kind == TargetKind::NewFile && size == 0 {
            // Of unknown length so far: what was written goes altogether.
            return match self.file.set_len(0) {
                Ok(()) => DiskState::EndsZeroed,
                Err(_) => DiskState::Unknown,
            };
        }
        // The end of the image may hold its backup table.
        let ends = [extent.min(size), END.min(size), size];
        let failed = ends
            .into_iter()
            .filter_map(|end| self.zero_stubbornly(end.saturating_sub(END), end).err())
            .last();
        match failed.map_or_else(|| self.flush(), Err) {
            Ok(()) => DiskState::EndsZeroed,
            Err(error) => {
                tracing::error!(
                    err = error.chain(),
                    "the ends of the disk could not be zeroed"
                );
                DiskState::Unknown
            }
        }
    }

    /// Zeroes as much as can be: a bad sector keeps its neighbours from
    /// nothing.
    fn zero_stubbornly(&self, start: u64, end: u64) -> Result<(), Error> {
        let zeroes = Aligned::new(END as usize);
        let mut bounce = Bounce::default();
        // At most 1 MiB.
        let whole = &zeroes[..(end - start) as usize];
        if self.write(whole, start, &mut bounce).is_ok() {
            return Ok(());
        }
        let (mut at, mut result) = (start, Ok(()));
        while at < end {
            let next = (at + 1).next_multiple_of(ALIGN as u64).min(end);
            let piece = &zeroes[..(next - at) as usize];
            result = result.and(self.write(piece, at, &mut bounce));
            at = next;
        }
        result
    }
}
