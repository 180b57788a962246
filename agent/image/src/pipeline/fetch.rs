//! The threads at the front of the pipeline: fetching and hashing.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Run;
use crate::buffer::Block;
use crate::checksum::Hasher;
use crate::control::Stopped;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::halt::Halt;
use crate::queue::Popped;
use crate::request::Algorithm;
use crate::source::Source;

impl Run<'_> {
    /// Reads the source from start to end, for the hash and the decoder.
    /// Gives the source back, and its length.
    pub(super) fn fetch_all(
        &self,
        mut source: Box<dyn Source>,
    ) -> Result<(Box<dyn Source>, u64), Halt> {
        let mut offset = 0;
        loop {
            let Some(block) = self.fill(&mut *source, offset, u64::MAX)? else {
                break;
            };
            offset = block.end();
            self.control.bytes_in.store(offset, Ordering::Relaxed);
            self.to_hash.push(Arc::clone(&block), self.control)?;
            self.blocks.push(block, self.control)?;
        }
        self.to_hash.close();
        self.blocks.close();
        Ok((source, offset))
    }

    /// Reads `ranges` of the source, which is `end` bytes long.
    pub(super) fn fetch(
        &self,
        mut source: Box<dyn Source>,
        ranges: &[Range<u64>],
        end: u64,
    ) -> Result<Box<dyn Source>, Halt> {
        for range in ranges {
            let stop = range.end.min(end);
            source.seek(range.start, Some(stop));
            let mut offset = range.start;
            while offset < stop && !self.enough.load(Ordering::Acquire) {
                let Some(block) = self.fill(&mut *source, offset, stop)? else {
                    let text = format!("{} became shorter while it was read", source.name());
                    return self.failed(Error::new(ErrorKind::Source, Stage::Fetch, text));
                };
                self.control
                    .bytes_again
                    .fetch_add(block.end() - offset, Ordering::Relaxed);
                offset = block.end();
                self.blocks.push(block, self.control)?;
            }
        }
        self.blocks.close();
        Ok(source)
    }

    /// Fills one block, up to `stop`; `None` at the end of the source.
    fn fill(
        &self,
        source: &mut dyn Source,
        offset: u64,
        stop: u64,
    ) -> Result<Option<Arc<Block>>, Halt> {
        let mut buffer = self.pool.take(self.control)?;
        let size = (self.pool.size() as u64).min(stop - offset) as usize;
        let mut filled = 0;
        while filled < size {
            match source.read(&mut buffer[filled..size]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) => return self.failed(error),
            }
        }
        Ok((filled > 0).then(|| Block::new(offset, buffer, filled)))
    }

    /// Fails the write at once: the decoder waits for this thread.
    fn failed<T>(&self, error: Error) -> Result<T, Halt> {
        self.control.fail(error);
        Err(Halt::Stopped)
    }

    pub(super) fn hash(&self, algorithm: Algorithm) -> Result<String, Stopped> {
        let mut hasher = Hasher::new(algorithm);
        loop {
            match self.to_hash.pop(self.control)? {
                Popped::Item(block) => hasher.update(block.bytes()),
                Popped::Idle => {}
                Popped::Closed => return Ok(hasher.finish()),
            }
        }
    }
}
