//! The thread that decodes a container into blocks.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use super::BlockReader;
use super::Container;
use super::decode;
use crate::buffer::Block;
use crate::buffer::Pool;
use crate::control::Control;
use crate::control::Stopped;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::halt::Halt;
use crate::queue::Queue;

/// One pass over a container.
pub(crate) struct Unpack<'a> {
    pub(crate) container: Container,
    /// Where decoded blocks come from.
    pub(crate) pool: &'a Arc<Pool>,
    /// Where they go.
    pub(crate) out: &'a Queue<Arc<Block>>,
    pub(crate) control: &'a Control,
    /// Set when no more of the source is needed.
    pub(crate) enough: &'a AtomicBool,
}

/// What a pass hands out.
#[derive(Debug)]
pub(crate) enum Limits {
    /// Everything; the hashed pass.
    All,
    /// Whole blocks that lie in these ranges of the decoded bytes, which
    /// were `end` bytes in the hashed pass.
    Ranges { ranges: Vec<Range<u64>>, end: u64 },
}

impl Unpack<'_> {
    /// Decodes `reader` to its end, or as far as `limits` want it.
    pub(crate) fn run(&self, mut reader: BlockReader<'_>, limits: &Limits) -> Result<(), Stopped> {
        match self.decode(&mut reader, limits) {
            Ok(()) => {}
            Err(Halt::Stopped) => return Err(Stopped),
            Err(Halt::Failed(error)) => {
                self.control.fail(error);
                self.control.running()?;
            }
        }
        self.enough.store(true, Ordering::Release);
        self.out.close();
        // What is left of the source is not decoded, but it must not block.
        reader.drain()
    }

    fn decode(&self, reader: &mut BlockReader<'_>, limits: &Limits) -> Result<(), Halt> {
        let failed = |offset, error| match self.control.running() {
            Ok(()) => Halt::Failed(decode::damaged(self.container.kind, offset, error)),
            // A reader fails only when the write was stopped.
            Err(Stopped) => Halt::Stopped,
        };
        let mut decoder =
            decode::decoder(self.container, reader).map_err(|error| failed(0, error))?;
        let mut offset = 0;
        while !limits.reached(offset) {
            let mut buffer = self.pool.take(self.control)?;
            let mut filled = 0;
            while filled < buffer.len() {
                match decoder.read(&mut buffer[filled..]) {
                    Ok(0) => break,
                    Ok(count) => filled += count,
                    Err(error) => return Err(failed(offset + filled as u64, error)),
                }
            }
            let ended = filled < buffer.len();
            if filled > 0 {
                let block = Block::new(offset, buffer, filled);
                offset = block.end();
                if limits.wants(&block) {
                    self.out.push(block, self.control)?;
                }
            }
            if ended {
                return Ok(limits.check_end(offset)?);
            }
        }
        Ok(())
    }
}

impl Limits {
    fn wants(&self, block: &Block) -> bool {
        match self {
            Self::All => true,
            Self::Ranges { ranges, .. } => ranges
                .iter()
                .any(|range| range.start < block.end() && block.offset < range.end),
        }
    }

    /// Whether nothing behind `offset` is wanted.
    fn reached(&self, offset: u64) -> bool {
        match self {
            Self::All => false,
            Self::Ranges { ranges, end } => {
                offset >= ranges.last().map_or(0, |range| range.end.min(*end))
            }
        }
    }

    /// The stream ended at `offset`, before everything wanted came.
    fn check_end(&self, offset: u64) -> Result<(), Error> {
        match self {
            Self::All => Ok(()),
            Self::Ranges { .. } if self.reached(offset) => Ok(()),
            Self::Ranges { end, .. } => {
                let text = format!(
                    "the source gave other bytes when it was read again: they decode to {offset} \
                     bytes, it was {end} before"
                );
                Err(Error::new(ErrorKind::Source, Stage::Verify, text).at(offset))
            }
        }
    }
}
