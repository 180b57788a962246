//! A fixed number of aligned buffers: the only back-pressure there is.

use std::alloc::Layout;
use std::alloc::alloc_zeroed;
use std::alloc::dealloc;
use std::fmt;
use std::ops::Deref;
use std::ops::DerefMut;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;

use crate::control::Control;
use crate::control::Stopped;
use crate::control::TICK;
use crate::control::lock;

/// Alignment of every buffer: enough for `O_DIRECT` on any disk.
pub(crate) const ALIGN: usize = 4096;

/// Bytes on the heap, aligned to [`ALIGN`], zero at first.
pub(crate) struct Aligned {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: an `Aligned` owns its memory as a `Box<[u8]>` would.
unsafe impl Send for Aligned {}
// SAFETY: shared access gives only `&[u8]`.
unsafe impl Sync for Aligned {}

impl Aligned {
    pub(crate) fn new(len: usize) -> Self {
        let len = len.max(ALIGN);
        let layout = Self::layout(len);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => Self { start, len },
            None => std::alloc::handle_alloc_error(layout),
        }
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, ALIGN).expect("invariant: buffer sizes are a few MiB")
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) }
    }
}

impl Deref for Aligned {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes that this value owns.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for Aligned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Aligned({} bytes)", self.len)
    }
}

/// The buffers of one write.
#[derive(Debug)]
pub(crate) struct Pool {
    state: Mutex<State>,
    returned: Condvar,
    size: usize,
}

#[derive(Debug)]
struct State {
    free: Vec<Aligned>,
    made: usize,
    most: usize,
}

impl Pool {
    /// At most `most` buffers of `size` bytes; made when first needed.
    pub(crate) fn new(size: usize, most: usize) -> Arc<Self> {
        let state = Mutex::new(State {
            free: Vec::new(),
            made: 0,
            most,
        });
        Arc::new(Self {
            state,
            returned: Condvar::new(),
            size,
        })
    }

    /// Raises the number of buffers, once the image is known.
    pub(crate) fn grow(&self, most: usize) {
        let mut state = lock(&self.state);
        state.most = state.most.max(most);
        self.returned.notify_all();
    }

    /// Bytes of each buffer.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Waits for a free buffer.
    pub(crate) fn take(self: &Arc<Self>, control: &Control) -> Result<Buffer, Stopped> {
        let mut state = lock(&self.state);
        loop {
            control.running()?;
            let found = state.free.pop().or_else(|| {
                (state.made < state.most).then(|| {
                    state.made += 1;
                    Aligned::new(self.size)
                })
            });
            if let Some(bytes) = found {
                return Ok(Buffer {
                    bytes: Some(bytes),
                    pool: Arc::clone(self),
                });
            }
            state = match self.returned.wait_timeout(state, TICK) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// How many buffers were ever made.
    #[cfg(test)]
    pub(crate) fn made(&self) -> usize {
        lock(&self.state).made
    }
}

/// One buffer, returned to its pool when dropped.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Option<Aligned>,
    pool: Arc<Pool>,
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(bytes) = self.bytes.take() {
            lock(&self.pool.state).free.push(bytes);
            self.pool.returned.notify_one();
        }
    }
}

/// A stretch of the source in a buffer.
#[derive(Debug)]
pub(crate) struct Block {
    /// Offset in the source in bytes.
    pub(crate) offset: u64,
    buffer: Buffer,
    len: usize,
}

impl Block {
    /// The first `len` bytes of `buffer`, from `offset` of the source.
    pub(crate) fn new(offset: u64, buffer: Buffer, len: usize) -> Arc<Self> {
        Arc::new(Self {
            offset,
            buffer,
            len,
        })
    }

    /// Offset behind the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    /// All of its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// The part of `range` (source offsets) that lies in this block, as a
    /// range of [`bytes`](Self::bytes).
    pub(crate) fn part(&self, range: &Range<u64>) -> Range<usize> {
        let start = range.start.clamp(self.offset, self.end()) - self.offset;
        let end = range.end.clamp(self.offset, self.end()) - self.offset;
        // Both are at most `len`.
        start as usize..(end as usize).max(start as usize)
    }
}

/// Whether all bytes are zero.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    // Blocks of 64 are looked at as a whole; the first that is not zero ends
    // it. Combining them instead of comparing keeps this off `memcmp`, which
    // in musl goes byte by byte.
    let none = |chunk: &[u8]| chunk.iter().fold(0, |all, byte| all | byte) == 0;
    let (head, rest) = bytes.as_chunks::<64>();
    head.iter().all(|chunk| none(chunk)) && none(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_bounded_and_reuses() {
        let control = Control::default();
        let pool = Pool::new(8192, 2);
        let first = pool.take(&control).unwrap();
        assert_eq!(first.as_ptr() as usize % ALIGN, 0);
        let second = pool.take(&control).unwrap();
        let waiter = {
            let pool = Arc::clone(&pool);
            std::thread::spawn(move || pool.take(&Control::default()).is_ok())
        };
        drop(first);
        assert!(waiter.join().unwrap());
        drop(second);
        assert_eq!(pool.made(), 2);
    }

    #[test]
    fn zero_is_told_from_nonzero_at_every_place() {
        let mut bytes = vec![0; 200];
        assert!(is_zero(&bytes));
        for at in [0, 63, 64, 127, 128, 191, 192, 199] {
            bytes[at] = 1;
            assert!(!is_zero(&bytes), "{at}");
            bytes[at] = 0;
        }
    }
}
