//! One writer thread's way to the disk: through a ring of its own where the
//! kernel has io_uring, else write by write.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::Target;
use super::ring::Payload;
use super::ring::Pending;
use super::ring::Ring;
use super::write::Bounce;
use super::write::refuses_direct;
use crate::buffer::Aligned;
use crate::control::Control;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;

/// Writes of one thread that are on their way at once; there are several threads.
const DEPTH: u32 = 4;

/// Memory for decoded clusters that a lane lends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scratch {
    /// Bytes of each piece.
    pub(crate) size: usize,
    /// Pieces at most; one can be filled while another is written.
    pub(crate) most: usize,
}

/// See the module. Dropping it waits for what is on its way.
#[derive(Debug)]
pub(crate) struct Lane<'a> {
    target: &'a Target,
    bounce: Bounce,
    ring: Option<Ring>,
    scratch: Scratch,
    spare: Vec<Aligned>,
    made: usize,
}

impl<'a> Lane<'a> {
    pub(crate) fn new(target: &'a Target, scratch: Scratch) -> Self {
        Self {
            target,
            bounce: Bounce::default(),
            ring: target.ring(DEPTH),
            scratch,
            spare: Vec::new(),
            made: 0,
        }
    }

    /// Whether anything is on its way.
    pub(crate) fn is_busy(&self) -> bool {
        self.ring.as_ref().is_some_and(|ring| ring.busy() > 0)
    }

    /// Memory to decode to; give it back as a [`Payload::Scratch`].
    pub(crate) fn scratch(&mut self) -> Result<Aligned, Error> {
        loop {
            if let Some(memory) = self.spare.pop() {
                return Ok(memory);
            }
            if self.made < self.scratch.most.max(1) || !self.is_busy() {
                self.made += 1;
                return Ok(Aligned::new(self.scratch.size));
            }
            self.wait()?;
        }
    }

    /// Writes `range` of a payload at `at`, now or some time before
    /// [`is_busy`](Self::is_busy) is false. A failure is told by this or a
    /// later call.
    pub(crate) fn write(
        &mut self,
        payload: Payload,
        range: Range<usize>,
        at: u64,
    ) -> Result<(), Error> {
        let target = self.target;
        let bytes = &payload.bytes()[range.clone()];
        let parts = target.parts(bytes, at);
        let lies_well = bytes[parts.direct.clone()]
            .as_ptr()
            .addr()
            .is_multiple_of(target.unit);
        if self.ring.is_none() || parts.direct.is_empty() || !lies_well {
            let result = target.write(bytes, at, &mut self.bounce);
            self.give_back(payload);
            return result;
        }
        for cached in [0..parts.direct.start, parts.direct.end..bytes.len()] {
            target.write_cached(&bytes[cached.clone()], at + cached.start as u64)?;
        }
        let pending = Pending {
            range: range.start + parts.direct.start..range.start + parts.direct.end,
            at: at + parts.direct.start as u64,
            payload,
        };
        while self.ring.as_ref().is_some_and(|ring| !ring.has_room()) {
            self.wait()?;
        }
        self.start(pending)?;
        // Frees what is done already.
        while self.settle(false)? {}
        Ok(())
    }

    /// Makes a range read as zero.
    pub(crate) fn zero(&mut self, at: u64, len: u64, control: &Control) -> Result<(), Error> {
        self.target.zero(at, len, &mut self.bounce, control)
    }

    /// Waits for one of the writes on their way, if there are any.
    pub(crate) fn wait(&mut self) -> Result<(), Error> {
        self.settle(true).map(|_| ())
    }

    /// Deals with one answered write; false when there is none.
    fn settle(&mut self, wait: bool) -> Result<bool, Error> {
        let Some(ring) = &mut self.ring else {
            return Ok(false);
        };
        let finished = ring.finished(wait).map_err(|error| {
            Error::new(ErrorKind::Internal, Stage::Write, "wait for io_uring").caused_by(error)
        })?;
        let Some((mut write, answer)) = finished else {
            return Ok(false);
        };
        match answer {
            Ok(0) => {
                let error = std::io::ErrorKind::WriteZero.into();
                return Err(self.target.error(Stage::Write, "write", write.at, error));
            }
            Ok(count) => {
                write.range.start += count;
                write.at += count as u64;
            }
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EINTR | libc::EAGAIN | libc::ECANCELED)
                ) => {}
            Err(error) if refuses_direct(&error) => {
                self.target.stop_direct("they are refused");
                let rest = &write.payload.bytes()[write.range.clone()];
                self.target.write_cached(rest, write.at)?;
                write.range.start = write.range.end;
            }
            Err(error) => {
                return Err(self.target.error(Stage::Write, "write", write.at, error));
            }
        }
        if write.range.is_empty() {
            self.give_back(write.payload);
        } else {
            self.start(write)?;
        }
        Ok(true)
    }

    fn start(&mut self, write: Pending) -> Result<(), Error> {
        let (Some(ring), Some(direct)) = (&mut self.ring, &self.target.direct) else {
            return Err(Error::new(ErrorKind::Internal, Stage::Write, "no io_uring"));
        };
        let at = write.at;
        let fail = |error| self.target.error(Stage::Write, "write", at, error);
        let len = self.target.allow(at, write.range.len()).map_err(fail)?;
        ring.start(direct, write, len).map_err(fail)
    }

    fn give_back(&mut self, payload: Payload) {
        if let Payload::Scratch(memory) = payload {
            self.spare.push(memory);
        }
    }
}

impl Target {
    /// Has the lanes made from now on write one by one.
    #[cfg(test)]
    pub(crate) fn use_no_ring(&self) {
        self.use_ring.store(false, Ordering::Relaxed);
    }

    /// A ring for this target, where it is written past the page cache and
    /// the kernel allows it.
    fn ring(&self, depth: u32) -> Option<Ring> {
        if !self.use_direct.load(Ordering::Relaxed) || !self.use_ring.load(Ordering::Relaxed) {
            return None;
        }
        match Ring::new(depth) {
            Ok(ring) => Some(ring),
            Err(error) => {
                tracing::debug!(err = %error, "no io_uring here, its threads write one by one");
                self.use_ring.store(false, Ordering::Relaxed);
                None
            }
        }
    }
}
