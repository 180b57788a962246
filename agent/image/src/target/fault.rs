//! A target that breaks, for tests.

use std::io;
use std::ops::Range;
use std::sync::Mutex;

use crate::control::lock;

/// Where writes fail, and how often.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Option<(Range<u64>, u32, i32)>>);

impl Faults {
    /// The next `times` writes that touch `range` fail with `errno`.
    pub(crate) fn set(&self, range: Range<u64>, times: u32, errno: i32) {
        *lock(&self.0) = Some((range, times, errno));
    }

    pub(super) fn hit(&self, offset: u64, len: usize) -> io::Result<()> {
        match &mut *lock(&self.0) {
            Some((range, times, errno))
                if *times > 0 && offset < range.end && offset + len as u64 > range.start =>
            {
                *times -= 1;
                Err(io::Error::from_raw_os_error(*errno))
            }
            _ => Ok(()),
        }
    }
}
