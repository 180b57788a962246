//! Between the decoders and the disk: holds both ends of the image back,
//! keeps digests for reading back, counts.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use crate::control::Control;
use crate::control::lock;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::layout;
use crate::readback::Sums;
use crate::size::size;
use crate::target::END;
use crate::target::Lane;
use crate::target::Payload;
use crate::target::Target;
use crate::target::TargetKind;

/// Where all image bytes go.
#[derive(Debug)]
pub(crate) struct Sink<'a> {
    pub(crate) target: &'a Target,
    pub(crate) control: &'a Control,
    sums: Option<Sums>,
    /// Bytes of the image; `u64::MAX` while not known.
    extent: AtomicU64,
    /// First byte of the held-back tail.
    tail_start: AtomicU64,
    head: Mutex<Vec<u8>>,
    /// Bytes of the head that are there: each comes once.
    head_filled: AtomicU64,
    /// The image was judged by its head.
    judged: AtomicBool,
    tail: Mutex<Vec<u8>>,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(target: &'a Target, control: &'a Control, read_back: bool) -> Self {
        Self {
            target,
            control,
            sums: read_back.then(Sums::new),
            extent: AtomicU64::new(u64::MAX),
            tail_start: AtomicU64::new(u64::MAX),
            head: Mutex::new(vec![0; END as usize]),
            head_filled: AtomicU64::new(0),
            judged: AtomicBool::new(false),
            tail: Mutex::new(Vec::new()),
        }
    }

    /// Fixes how much of the disk the image covers. Must come before any
    /// byte of the last [`END`] bytes (and a page) is put.
    pub(crate) fn set_extent(&self, bytes: u64) -> Result<(), Error> {
        self.check_size(bytes)?;
        self.target.resize(bytes)?;
        let head = END.min(bytes);
        // At a page boundary, so that writes beside it stay whole pages.
        let tail_start = (bytes.saturating_sub(END) & !4095).max(head);
        lock(&self.head).truncate(head as usize);
        // At most END and a page.
        *lock(&self.tail) = vec![0; (bytes - tail_start) as usize];
        self.tail_start.store(tail_start, Ordering::Release);
        self.extent.store(bytes, Ordering::Release);
        Ok(())
    }

    /// Bytes of the image, once known.
    pub(crate) fn extent(&self) -> Option<u64> {
        Some(self.extent.load(Ordering::Acquire)).filter(|extent| *extent != u64::MAX)
    }

    /// Refuses an image that needs `bytes` on a smaller disk.
    pub(crate) fn check_size(&self, bytes: u64) -> Result<(), Error> {
        let disk = self.target.size();
        if self.target.kind() == TargetKind::NewFile || bytes <= disk {
            return Ok(());
        }
        let text = format!(
            "the image needs {bytes} bytes ({}) but the disk {} has {disk} bytes ({})",
            size(bytes),
            self.target.path().display(),
            size(disk)
        );
        Err(Error::new(ErrorKind::TooLarge, Stage::Check, text))
    }

    /// Puts `range` of a payload at its place on the disk, or on its way
    /// there.
    pub(crate) fn put(
        &self,
        payload: Payload,
        range: Range<usize>,
        at: u64,
        lane: &mut Lane<'_>,
    ) -> Result<(), Error> {
        let bytes = &payload.bytes()[range.clone()];
        let count = bytes.len() as u64;
        let inner = self.hold_back(bytes, at);
        let start = at + inner.start as u64;
        if let Some(sums) = &self.sums {
            sums.add(&bytes[inner.clone()], start);
        }
        let inner = range.start + inner.start..range.start + inner.end;
        lane.write(payload, inner, start)?;
        self.control.bytes_out.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps what lies in the ends; returns which part is written now.
    fn hold_back(&self, bytes: &[u8], at: u64) -> Range<usize> {
        // Neither end is longer than END and a page.
        let before = if at < END {
            let mut held = lock(&self.head);
            let from = at as usize;
            let count = held.len().saturating_sub(from).min(bytes.len());
            held[from..from + count].copy_from_slice(&bytes[..count]);
            drop(held);
            self.head_filled.fetch_add(count as u64, Ordering::Release);
            count
        } else {
            0
        };
        let tail_start = self.tail_start.load(Ordering::Acquire);
        let until = tail_start.saturating_sub(at).min(bytes.len() as u64) as usize;
        let until = until.max(before);
        if until < bytes.len() {
            let mut held = lock(&self.tail);
            let from = (at + until as u64 - tail_start) as usize;
            let count = held.len().saturating_sub(from).min(bytes.len() - until);
            held[from..from + count].copy_from_slice(&bytes[until..until + count]);
        }
        before..until
    }

    /// Judges the image as soon as its whole head is there, not only when
    /// everything is written.
    pub(crate) fn check_head(&self) -> Result<(), Error> {
        let filled = self.head_filled.load(Ordering::Acquire);
        if self.judged.load(Ordering::Relaxed) {
            return Ok(());
        }
        let head = lock(&self.head);
        if filled < head.len() as u64 {
            return Ok(());
        }
        self.judged.store(true, Ordering::Relaxed);
        layout::check(self.target, &head, self.extent())
    }

    /// Makes a range of the image read as zero. The held-back ends are zero
    /// from the start.
    pub(crate) fn zero(&self, at: u64, len: u64, lane: &mut Lane<'_>) -> Result<(), Error> {
        let start = at.max(END.min(at + len));
        self.head_filled.fetch_add(start - at, Ordering::Release);
        let end = (at + len).min(self.tail_start.load(Ordering::Acquire));
        if start < end {
            lane.zero(start, end - start, self.control)?;
        }
        self.control.bytes_out.fetch_add(len, Ordering::Relaxed);
        self.control.bytes_zeroed.fetch_add(len, Ordering::Relaxed);
        Ok(())
    }

    /// Reads everything but the ends back and compares it with what was put.
    pub(crate) fn read_back(&self, tick: impl FnMut(u64)) -> Result<bool, Error> {
        let (Some(sums), Some(_)) = (&self.sums, self.extent()) else {
            return Ok(false);
        };
        let start = lock(&self.head).len() as u64;
        let end = self.tail_start.load(Ordering::Acquire);
        sums.compare(self.target, self.control, start..end, tick)?;
        Ok(true)
    }

    /// The held-back ends: head, tail and the tail's place.
    pub(crate) fn take_ends(&self) -> (Vec<u8>, Vec<u8>, u64) {
        let head = std::mem::take(&mut *lock(&self.head));
        let tail = std::mem::take(&mut *lock(&self.tail));
        (head, tail, self.tail_start.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Scratch;

    #[test]
    fn both_ends_stay_off_the_disk_whatever_the_pieces() {
        for (extent, piece) in [
            (3 << 20, 4096),
            (1 << 20, 65536),
            (5000, 512),
            (3_000_007, 99_991),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("disk");
            let target = Target::claim(&path).unwrap();
            let control = Control::new(crate::CancelToken::new());
            let sink = Sink::new(&target, &control, false);
            sink.set_extent(extent).unwrap();
            let bytes: Vec<u8> = (0..extent).map(|at| (at % 251) as u8 + 1).collect();
            let scratch = Scratch {
                size: piece,
                most: 2,
            };
            let mut lane = Lane::new(&target, scratch);
            for (index, chunk) in bytes.chunks(piece).enumerate() {
                let mut memory = lane.scratch().unwrap();
                memory[..chunk.len()].copy_from_slice(chunk);
                let (payload, at) = (Payload::Scratch(memory), index * piece);
                sink.put(payload, 0..chunk.len(), at as u64, &mut lane)
                    .unwrap();
            }
            while lane.is_busy() {
                lane.wait().unwrap();
            }
            let disk = std::fs::read(&path).unwrap();
            let (head, tail, tail_at) = sink.take_ends();
            let middle = head.len()..tail_at as usize;
            assert!(disk[..head.len()].iter().all(|byte| *byte == 0));
            assert!(disk[tail_at as usize..].iter().all(|byte| *byte == 0));
            assert!(tail_at as usize + tail.len() == bytes.len());
            assert!(head == bytes[..head.len()] && tail == bytes[tail_at as usize..]);
            assert!(disk[middle.clone()] == bytes[middle]);
        }
    }
}
