//! Between the decoders and the disk: holds both ends of the image back,
//! keeps digests for reading back, counts.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use crate::control::Control;
use crate::control::lock;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::readback::Sums;
use crate::table;
use crate::target::Bounce;
use crate::target::END;
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
            "the image needs {bytes} bytes ({:.1} GiB) but the disk {} has {disk} bytes ({:.1} GiB)",
            gib(bytes),
            self.target.path().display(),
            gib(disk)
        );
        Err(Error::new(ErrorKind::TooLarge, Stage::Check, text))
    }

    /// Puts image bytes at their place on the disk.
    pub(crate) fn put(&self, bytes: &[u8], at: u64, bounce: &mut Bounce) -> Result<(), Error> {
        let count = bytes.len() as u64;
        let (inner, start) = self.hold_back(bytes, at);
        if !inner.is_empty() {
            if let Some(sums) = &self.sums {
                sums.add(inner, start);
            }
            self.target.write(inner, start, bounce)?;
        }
        self.control.bytes_out.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps what lies in the ends; returns the rest and its place.
    fn hold_back<'b>(&self, bytes: &'b [u8], at: u64) -> (&'b [u8], u64) {
        let (mut inner, mut start) = (bytes, at);
        let mut head = None;
        if at < END {
            let mut held = lock(&self.head);
            let from = at as usize;
            let count = held.len().saturating_sub(from).min(bytes.len());
            held[from..from + count].copy_from_slice(&bytes[..count]);
            inner = &bytes[count..];
            start += count as u64;
            head = Some(count);
        }
        let tail_start = self.tail_start.load(Ordering::Acquire);
        let end = start + inner.len() as u64;
        if end > tail_start {
            let split = tail_start.saturating_sub(start).min(inner.len() as u64) as usize;
            let (before, last) = inner.split_at(split);
            let mut held = lock(&self.tail);
            let from = (start + split as u64 - tail_start) as usize;
            let count = held.len().saturating_sub(from).min(last.len());
            held[from..from + count].copy_from_slice(&last[..count]);
            inner = before;
        }
        debug_assert!(head.is_none_or(|count| count > 0 || bytes.is_empty()));
        (inner, start)
    }

    /// Refuses a GPT made for another sector size as soon as it is in the
    /// held-back head, not only when everything is written.
    pub(crate) fn check_head(&self) -> Result<(), Error> {
        if self.target.kind() != TargetKind::Block {
            return Ok(());
        }
        let disk = self.target.sector_size();
        let image = {
            let head = lock(&self.head);
            let has = |at: usize| {
                head.get(at..)
                    .is_some_and(|rest| rest.starts_with(b"EFI PART"))
            };
            [512, 4096].into_iter().find(|size| has(*size as usize))
        };
        image.map_or(Ok(()), |image| table::check_sector_size(image, Some(disk)))
    }

    /// Makes a range of the image read as zero. The held-back ends are zero
    /// from the start.
    pub(crate) fn zero(&self, at: u64, len: u64, bounce: &mut Bounce) -> Result<(), Error> {
        let start = at.max(END.min(at + len));
        let end = (at + len).min(self.tail_start.load(Ordering::Acquire));
        if start < end {
            self.target.zero(start, end - start, bounce, self.control)?;
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

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let mut bounce = Bounce::default();
            for (index, chunk) in bytes.chunks(piece).enumerate() {
                sink.put(chunk, (index * piece) as u64, &mut bounce)
                    .unwrap();
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
