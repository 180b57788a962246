//! A target that breaks, for tests: where every byte on its way to and from
//! the disk passes.

use std::io;
use std::ops::Range;
use std::sync::Mutex;

use crate::control::lock;

/// What goes wrong, and where.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    failing: Option<Failing>,
    flushes: Option<(u32, i32)>,
    most: Option<usize>,
    changed: Option<u64>,
    zeroing: (u8, i32),
}

/// Writes and zeroed ranges that touch `range`: `before` of them work, then
/// `times` fail with `errno`.
#[derive(Debug)]
pub(crate) struct Failing {
    pub(crate) range: Range<u64>,
    pub(crate) before: u32,
    pub(crate) times: u32,
    pub(crate) errno: i32,
}

impl Faults {
    /// Writes fail from now on.
    pub(crate) fn fail(&self, failing: Failing) {
        lock(&self.0).failing = Some(failing);
    }

    /// `before` flushes work, the next one fails with `errno`.
    pub(crate) fn fail_flush(&self, before: u32, errno: i32) {
        lock(&self.0).flushes = Some((before, errno));
    }

    /// No write takes more than `most` bytes at once.
    pub(crate) fn shorten(&self, most: usize) {
        lock(&self.0).most = Some(most);
    }

    /// The byte at `offset` reads as another one than was written.
    pub(crate) fn change(&self, offset: u64) {
        lock(&self.0).changed = Some(offset);
    }

    /// The first `ways` ways of zeroing answer `errno`.
    pub(crate) fn refuse_zeroing(&self, ways: u8, errno: i32) {
        lock(&self.0).zeroing = (ways, errno);
    }

    /// How a way of zeroing answers, if it does not work.
    pub(super) fn zeroing(&self, way: u8) -> io::Result<()> {
        let (ways, errno) = lock(&self.0).zeroing;
        if way < ways {
            return Err(io::Error::from_raw_os_error(errno));
        }
        Ok(())
    }

    /// How many of `len` bytes at `offset` are taken.
    pub(super) fn allow(&self, offset: u64, len: usize) -> io::Result<usize> {
        let mut state = lock(&self.0);
        if let Some(failing) = &mut state.failing
            && failing.times > 0
            && offset < failing.range.end
            && offset + len as u64 > failing.range.start
        {
            if failing.before > 0 {
                failing.before -= 1;
            } else {
                failing.times -= 1;
                return Err(io::Error::from_raw_os_error(failing.errno));
            }
        }
        Ok(state.most.map_or(len, |most| len.min(most)))
    }

    pub(super) fn flush(&self) -> io::Result<()> {
        let flushes = &mut lock(&self.0).flushes;
        match flushes {
            Some((0, errno)) => {
                let error = io::Error::from_raw_os_error(*errno);
                *flushes = None;
                Err(error)
            }
            Some((before, _)) => {
                *before -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Bytes that were read at `offset`.
    pub(super) fn read(&self, bytes: &mut [u8], offset: u64) {
        let changed = lock(&self.0).changed;
        let byte = changed
            .and_then(|at| at.checked_sub(offset))
            .and_then(|at| bytes.get_mut(usize::try_from(at).ok()?));
        if let Some(byte) = byte {
            *byte ^= 1;
        }
    }
}
