//! Writes through io_uring: one thread has many on their way at once.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::IoUring;
use io_uring::Probe;
use io_uring::opcode;
use io_uring::types::Fd;

use crate::buffer::Aligned;
use crate::buffer::Block;

/// Bytes that stay where they are until they are written.
#[derive(Debug)]
pub(crate) enum Payload {
    /// A part of the source.
    Block(Arc<Block>),
    /// Decoded bytes; the memory goes back to the lane it came from.
    Scratch(Aligned),
}

impl Payload {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Block(block) => block.bytes(),
            Self::Scratch(scratch) => scratch,
        }
    }
}

/// A write that was handed in, or what is left of it.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) payload: Payload,
    /// The part of the payload that is written.
    pub(super) range: Range<usize>,
    /// Its place on the disk.
    pub(super) at: u64,
}

/// A ring of one thread and the writes that are in it.
pub(super) struct Ring {
    uring: IoUring,
    /// Writes that the kernel may be reading from, by `user_data`.
    slots: Vec<Option<Pending>>,
    busy: usize,
}

impl Ring {
    /// A ring for `depth` writes at once; an error where the kernel has none
    /// or forbids it.
    pub(super) fn new(depth: u32) -> io::Result<Self> {
        let uring = IoUring::new(depth)?;
        let mut probe = Probe::new();
        uring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Write::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self {
            uring,
            slots: (0..depth).map(|_| None).collect(),
            busy: 0,
        })
    }

    /// Number of writes on their way.
    pub(super) fn busy(&self) -> usize {
        self.busy
    }

    /// Whether another write can be handed in.
    pub(super) fn has_room(&self) -> bool {
        self.busy < self.slots.len()
    }

    /// Hands the first `len` bytes of a write in. There must be room.
    pub(super) fn start(&mut self, file: &File, write: Pending, len: usize) -> io::Result<()> {
        let Some(slot) = self.slots.iter().position(Option::is_none) else {
            return Err(io::ErrorKind::QuotaExceeded.into());
        };
        let bytes = &write.payload.bytes()[write.range.clone()];
        // Blocks and scratch memory are a few MiB.
        let len = u32::try_from(len.min(bytes.len())).map_err(io::Error::other)?;
        let entry = opcode::Write::new(Fd(file.as_raw_fd()), bytes.as_ptr(), len)
            .offset(write.at)
            .build()
            .user_data(slot as u64);
        self.slots[slot] = Some(write);
        self.busy += 1;
        // SAFETY: the payload's bytes do not move with it (they are behind an
        // `Arc` or on the heap) and it stays in its slot until the kernel has
        // answered; a ring that is dropped waits for that, too. The file is
        // open: its target outlives the lane that owns this ring.
        if unsafe { self.uring.submission().push(&entry) }.is_err() {
            self.busy -= 1;
            self.slots[slot] = None;
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        self.enter(0)
    }

    /// Takes a write that was answered, with the answer: bytes written. Waits
    /// for one with `wait`, while there is any.
    pub(super) fn finished(
        &mut self,
        wait: bool,
    ) -> io::Result<Option<(Pending, io::Result<usize>)>> {
        loop {
            let entry = self.uring.completion().next();
            if let Some(entry) = entry {
                let slot = usize::try_from(entry.user_data()).unwrap_or(usize::MAX);
                let Some(write) = self.slots.get_mut(slot).and_then(Option::take) else {
                    continue;
                };
                self.busy -= 1;
                let answer = usize::try_from(entry.result())
                    .map_err(|_| io::Error::from_raw_os_error(-entry.result()));
                return Ok(Some((write, answer)));
            }
            if !wait || self.busy == 0 {
                return Ok(None);
            }
            self.enter(1)?;
        }
    }

    fn enter(&self, wait: usize) -> io::Result<()> {
        match self.uring.submit_and_wait(wait) {
            Ok(_) => Ok(()),
            // Not handed in yet: it is with the next call, which waits.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.busy > 0 {
            if self.finished(true).is_err() {
                // The kernel may still read from them.
                std::mem::forget(std::mem::take(&mut self.slots));
                return;
            }
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ring({} of {} busy)", self.busy, self.slots.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_arrive_and_their_memory_comes_back() {
        // Forbidden in some containers: then there is nothing to test.
        let Ok(mut ring) = Ring::new(4) else {
            return;
        };
        let file = tempfile::tempfile().unwrap();
        let write = |byte: u8| {
            let mut memory = Aligned::new(8192);
            memory.fill(byte);
            Pending {
                payload: Payload::Scratch(memory),
                range: 4096..8192,
                at: u64::from(byte) * 4096,
            }
        };
        for byte in 0..20 {
            if !ring.has_room() {
                assert!(ring.finished(true).unwrap().is_some());
            }
            ring.start(&file, write(byte), 4096).unwrap();
        }
        while let Some((done, answer)) = ring.finished(true).unwrap() {
            assert_eq!((answer.unwrap(), done.range.len()), (4096, 4096));
        }
        assert_eq!(ring.busy(), 0);
        let mut found = vec![0; 20 * 4096];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut found, 0).unwrap();
        assert!((0..20).all(|byte| found[byte * 4096..][..4096] == [byte as u8; 4096]));
        // A refused write is told with its cause.
        let sealed = File::open("/dev/null").unwrap();
        ring.start(&sealed, write(1), 4096).unwrap();
        let (_, answer) = ring.finished(true).unwrap().unwrap();
        assert_eq!(answer.unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}
