//! Raw images: blocks go to the disk as they are.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::buffer::Block;
use crate::buffer::is_zero;
use crate::halt::Halt;
use crate::sink::Sink;
use crate::target::END;
use crate::worker::Job;
use crate::worker::Jobs;

/// Decoder of raw images.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    /// The last blocks of a source of unknown length: any of them may turn
    /// out to lie in the end that is held back.
    waiting: VecDeque<Arc<Block>>,
}

impl Raw {
    pub(crate) fn block(
        &mut self,
        block: Arc<Block>,
        sink: &Sink<'_>,
        jobs: Jobs<'_>,
    ) -> Result<(), Halt> {
        if sink.extent().is_some() {
            return put(block, jobs);
        }
        let end = block.end();
        sink.check_size(end)?;
        self.waiting.push_back(block);
        while let Some(first) = self.waiting.front()
            && first.end() + END + 4096 <= end
        {
            if let Some(first) = self.waiting.pop_front() {
                put(first, jobs)?;
            }
        }
        Ok(())
    }

    pub(crate) fn end(&mut self, end: u64, sink: &Sink<'_>, jobs: Jobs<'_>) -> Result<(), Halt> {
        if sink.extent().is_none() {
            sink.set_extent(end)?;
        }
        self.waiting
            .drain(..)
            .try_for_each(|block| put(block, jobs))
    }
}

fn put(block: Arc<Block>, jobs: Jobs<'_>) -> Result<(), Halt> {
    let at = block.offset;
    let len = block.bytes().len();
    if is_zero(block.bytes()) {
        jobs.push(Job::Zero {
            at,
            len: len as u64,
        })?;
    } else {
        jobs.push(Job::Data {
            block,
            range: 0..len,
            at,
        })?;
    }
    Ok(())
}
