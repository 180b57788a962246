//! What the threads of one write share: counters, the first failure, the
//! request to stop.

use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::cancel::CancelToken;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;

/// Longest time any thread waits before it looks whether to stop.
// cargo-fuzz sets the flag: a failed write waits for a tick, a thousand of
// them for too long.
#[allow(unexpected_cfgs, reason = "not in every compiler's list")]
pub(crate) const TICK: Duration = Duration::from_millis(if cfg!(fuzzing) { 1 } else { 100 });

/// Somebody else failed or cancelled; the reason is in [`Control`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

/// Shared by all threads of one write.
#[derive(Debug, Default)]
pub(crate) struct Control {
    cancel: CancelToken,
    stop: AtomicBool,
    failure: Mutex<Option<Error>>,
    /// The digest is not known yet and will be.
    hashing: AtomicBool,
    damaged: AtomicBool,
    /// Why the image cannot be decoded, until its digest is known.
    damage: Mutex<Option<Error>>,
    /// The target was written to.
    touched: AtomicBool,
    /// Source bytes of the hashed pass.
    pub(crate) bytes_in: AtomicU64,
    /// Source bytes of later passes.
    pub(crate) bytes_again: AtomicU64,
    /// Length of the source; `u64::MAX` when not known.
    total: AtomicU64,
    /// Target bytes in place.
    pub(crate) bytes_out: AtomicU64,
    /// Target bytes put in place as zero ranges.
    pub(crate) bytes_zeroed: AtomicU64,
    /// Connections opened.
    pub(crate) connections: AtomicU32,
}

impl Control {
    pub(crate) fn new(cancel: CancelToken) -> Self {
        let control = Self {
            cancel,
            ..Self::default()
        };
        control.total.store(u64::MAX, Ordering::Relaxed);
        control
    }

    /// `Err` once anything failed or the caller cancelled.
    pub(crate) fn running(&self) -> Result<(), Stopped> {
        if self.stop.load(Ordering::Acquire) {
            return Err(Stopped);
        }
        if self.cancel.is_cancelled() {
            self.fail(Error::cancelled(Stage::Write));
            return Err(Stopped);
        }
        Ok(())
    }

    /// Deals with a failure of any thread: [`stop`](Self::stop), but an image
    /// that cannot be decoded is hashed to its end first: whether its digest
    /// is right tells where it was damaged.
    pub(crate) fn fail(&self, error: Error) {
        let damage = error.kind() == ErrorKind::Format && error.stage() == Stage::Decode;
        if damage && self.hashing.load(Ordering::Acquire) {
            lock(&self.damage).get_or_insert(error);
            self.damaged.store(true, Ordering::Release);
        } else {
            self.stop(error);
        }
    }

    /// Keeps the first failure and stops every thread, whatever it is.
    pub(crate) fn stop(&self, error: Error) {
        let mut failure = lock(&self.failure);
        if failure.is_none() {
            *failure = Some(error);
        }
        self.stop.store(true, Ordering::Release);
    }

    /// The first failure, for the caller.
    pub(crate) fn take_failure(&self) -> Error {
        lock(&self.failure).take().unwrap_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                Stage::Write,
                "a worker stopped without a reason",
            )
        })
    }

    /// From now on damage waits for the digest; until [`hashed`](Self::hashed).
    pub(crate) fn hash_all(&self) {
        self.hashing.store(true, Ordering::Release);
    }

    /// The digest is known; gives back why the image could not be decoded.
    pub(crate) fn hashed(&self) -> Option<Error> {
        self.hashing.store(false, Ordering::Release);
        lock(&self.damage).take()
    }

    /// Whether nothing more is decoded or written, only hashed.
    pub(crate) fn damaged(&self) -> bool {
        self.damaged.load(Ordering::Acquire)
    }

    /// The target is about to be written to.
    pub(crate) fn touch(&self) {
        self.touched.store(true, Ordering::Release);
    }

    /// Whether the target was written to.
    pub(crate) fn touched(&self) -> bool {
        self.touched.load(Ordering::Acquire)
    }

    /// Notes the length of the source.
    pub(crate) fn set_total(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// Length of the source, once known.
    pub(crate) fn total(&self) -> Option<u64> {
        Some(self.total.load(Ordering::Relaxed)).filter(|total| *total != u64::MAX)
    }

    /// Sleeps, but not past a failure or a cancel.
    pub(crate) fn sleep(&self, time: Duration) -> Result<(), Stopped> {
        let mut left = time;
        while !left.is_zero() {
            self.running()?;
            let nap = left.min(TICK);
            std::thread::sleep(nap);
            left -= nap;
        }
        self.running()
    }
}

/// Locks, and goes on after another thread's panic: the panic itself is
/// reported where that thread is joined.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}
