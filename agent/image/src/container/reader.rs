//! The blocks of a pass as one stream of bytes.

use std::io;
use std::io::BufRead;
use std::io::Read;
use std::sync::Arc;

use crate::buffer::Block;
use crate::control::Control;
use crate::control::Stopped;
use crate::queue::Popped;
use crate::queue::Queue;

/// Reads the blocks of a queue, in order. An error means that the write was
/// stopped; the reason is in the [`Control`].
pub(crate) struct BlockReader<'a> {
    blocks: &'a Queue<Arc<Block>>,
    control: &'a Control,
    current: Option<Arc<Block>>,
    /// Bytes of the current block that were read.
    used: usize,
    ended: bool,
}

impl<'a> BlockReader<'a> {
    /// Starts with `first`, where that was taken from the queue already.
    pub(crate) fn new(
        first: Option<Arc<Block>>,
        blocks: &'a Queue<Arc<Block>>,
        control: &'a Control,
    ) -> Self {
        Self {
            blocks,
            control,
            current: first,
            used: 0,
            ended: false,
        }
    }
}

impl BlockReader<'_> {
    /// Takes and drops what is left, so that nobody waits for room.
    pub(crate) fn drain(&mut self) -> Result<(), Stopped> {
        self.current = None;
        while !self.ended {
            self.ended = matches!(self.blocks.pop(self.control)?, Popped::Closed);
        }
        Ok(())
    }
}

impl BufRead for BlockReader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while !self.ended
            && self
                .current
                .as_ref()
                .is_none_or(|block| self.used >= block.bytes().len())
        {
            self.current = None;
            self.used = 0;
            match self.blocks.pop(self.control) {
                Ok(Popped::Item(block)) => self.current = Some(block),
                Ok(Popped::Idle) => {}
                Ok(Popped::Closed) => self.ended = true,
                Err(_) => return Err(io::Error::other("the write was stopped")),
            }
        }
        Ok(self
            .current
            .as_ref()
            .map_or(&[][..], |block| &block.bytes()[self.used..]))
    }

    fn consume(&mut self, count: usize) {
        self.used += count;
    }
}

impl Read for BlockReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(buf.len());
        buf[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}
