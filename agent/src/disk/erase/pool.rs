//! Work on several disks at a time, and what it tells of its progress.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use wrought_wire::progress::Progress;

use crate::disk::erase::OnProgress;
use crate::disk::erase::report::Done;
use crate::disk::error::Error;

/// What became of one disk, and how long it took.
pub(super) type Outcome = (Result<Done, Error>, Duration);

/// Runs `work` on each item, at most `concurrency` at a time; outcomes in
/// the order of the items.
pub(super) fn run<T: Send>(
    items: Vec<T>,
    concurrency: usize,
    work: impl Fn(T) -> Result<Done, Error> + Sync,
) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<Option<Outcome>>> = Mutex::new(items.iter().map(|_| None).collect());
    let items: Vec<Mutex<Option<T>>> = items
        .into_iter()
        .map(|item| Mutex::new(Some(item)))
        .collect();
    thread::scope(|scope| {
        for _ in 0..concurrency.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else {
                        return;
                    };
                    let item = item.lock().unwrap_or_else(PoisonError::into_inner).take();
                    let Some(item) = item else {
                        return;
                    };
                    let start = Instant::now();
                    let outcome = (work(item), start.elapsed());
                    let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                    outcomes[index] = Some(outcome);
                }
            });
        }
    });
    let outcomes = outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    outcomes.into_iter().flatten().collect()
}

fn percent(done: u64, total: u64) -> Option<u8> {
    let percent = u128::from(done) * 100 / u128::from(total.max(1));
    u8::try_from(percent.min(100)).ok()
}

/// Progress counted in disks.
pub(super) struct Steps<'a> {
    stage: &'static str,
    total: u64,
    done: AtomicU64,
    progress: OnProgress<'a>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(stage: &'static str, total: usize, progress: OnProgress<'a>) -> Self {
        let steps = Self {
            stage,
            total: total as u64,
            done: AtomicU64::new(0),
            progress,
        };
        steps.report(0);
        steps
    }

    pub(super) fn done_one(&self) {
        self.report(self.done.fetch_add(1, Ordering::Relaxed) + 1);
    }

    fn report(&self, done: u64) {
        let stage = self.stage.to_owned();
        let percent = percent(done, self.total);
        (self.progress)(Progress {
            stage,
            percent,
            ..Progress::default()
        });
    }
}

/// Progress counted in bytes.
pub(super) struct Bytes<'a> {
    stage: &'static str,
    total: u64,
    done: AtomicU64,
    start: Instant,
    progress: OnProgress<'a>,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(stage: &'static str, total: u64, progress: OnProgress<'a>) -> Self {
        let bytes = Self {
            stage,
            total,
            done: AtomicU64::new(0),
            start: Instant::now(),
            progress,
        };
        bytes.add(0);
        bytes
    }

    /// The part of one disk.
    pub(super) fn share(&'a self, size: u64) -> Share<'a> {
        Share {
            bytes: self,
            size,
            given: AtomicU64::new(0),
        }
    }

    /// Counts bytes that need no more work.
    fn add(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let millis = u64::try_from(self.start.elapsed().as_millis())
            .unwrap_or(u64::MAX)
            .max(1);
        let rate = u64::try_from(u128::from(done) * 1000 / u128::from(millis)).unwrap_or(u64::MAX);
        (self.progress)(Progress {
            stage: self.stage.to_owned(),
            bytes_in: done,
            bytes_total: Some(self.total),
            bytes_out: done,
            rate,
            percent: percent(done, self.total),
            eta: self.total.saturating_sub(done).checked_div(rate),
        });
    }
}

/// How far one disk is, as its part of all bytes. It never goes back, even
/// when one means fails and the next begins anew.
pub(super) struct Share<'a> {
    bytes: &'a Bytes<'a>,
    size: u64,
    given: AtomicU64,
}

impl Share<'_> {
    /// So many parts of so many are done.
    pub(super) fn set(&self, done: u128, of: u128) {
        let bytes = u128::from(self.size) * done.min(of) / of.max(1);
        let bytes = u64::try_from(bytes).unwrap_or(self.size);
        let before = self.given.fetch_max(bytes, Ordering::Relaxed);
        if bytes > before {
            self.bytes.add(bytes - before);
        }
    }

    /// Nothing is left to do with this disk.
    pub(super) fn finish(&self) {
        self.set(1, 1);
    }
}
