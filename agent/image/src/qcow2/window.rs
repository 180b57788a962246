//! The last blocks of the stream, so that tables and clusters that span
//! blocks can be taken in whole.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::buffer::Block;

/// A block in the window.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) block: Arc<Block>,
    /// Its bytes are those of the hashed pass.
    pub(super) trusted: bool,
    /// Source ranges that were understood.
    used: Vec<Range<u64>>,
    /// Some of these end with a sector and not with their data: another
    /// cluster may lie in the rest of it.
    rounded: bool,
}

impl Held {
    /// Whether every byte was understood, so that it is not needed again.
    /// With `more` tables to come, the rest of a sector may be.
    pub(super) fn into_used_up(mut self, more: bool) -> bool {
        if more && self.rounded {
            return false;
        }
        self.used.sort_unstable_by_key(|range| range.start);
        let mut covered = self.block.offset;
        for range in &self.used {
            if range.start > covered {
                return false;
            }
            covered = covered.max(range.end);
        }
        covered >= self.block.end()
    }
}

/// Consecutive blocks.
#[derive(Debug, Default)]
pub(super) struct Window {
    held: VecDeque<Held>,
}

impl Window {
    /// Offset of the first byte; of the next block when empty.
    pub(super) fn start(&self) -> Option<u64> {
        self.held.front().map(|held| held.block.offset)
    }

    /// Offset behind the last byte.
    pub(super) fn end(&self) -> Option<u64> {
        self.held.back().map(|held| held.block.end())
    }

    pub(super) fn push(&mut self, block: Arc<Block>, trusted: bool) {
        self.held.push_back(Held {
            block,
            trusted,
            used: Vec::new(),
            rounded: false,
        });
    }

    /// Takes the first block out when no more than `retain` bytes behind it
    /// are wanted.
    pub(super) fn pop(&mut self, retain: u64) -> Option<Held> {
        let end = self.end()?;
        let first = self.held.front()?;
        (first.block.end().saturating_add(retain) <= end).then(|| self.held.pop_front())?
    }

    /// Marks source bytes as understood, `rounded` up to a sector or as they
    /// are; `false` when a block they lie in cannot be trusted.
    pub(super) fn mark(&mut self, range: Range<u64>, rounded: bool) -> bool {
        let mut trusted = true;
        for held in &mut self.held {
            let start = range.start.max(held.block.offset);
            let end = range.end.min(held.block.end());
            if start >= end {
                continue;
            }
            trusted &= held.trusted;
            held.rounded |= rounded;
            match held.used.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => held.used.push(start..end),
            }
        }
        trusted
    }

    /// The parts of `range` in each block.
    pub(super) fn pieces(
        &self,
        range: Range<u64>,
    ) -> impl Iterator<Item = (&Arc<Block>, Range<usize>)> {
        self.held
            .iter()
            .map(move |held| (&held.block, held.block.part(&range)))
            .filter(|(_, part)| !part.is_empty())
    }

    /// The bytes of `range`, which lies in the window.
    pub(super) fn bytes(&self, range: Range<u64>) -> Cow<'_, [u8]> {
        let mut pieces = self.pieces(range.clone());
        match (pieces.next(), pieces.next()) {
            (Some((block, part)), None) => Cow::Borrowed(&block.bytes()[part]),
            _ => {
                let parts = self.pieces(range);
                Cow::Owned(
                    parts
                        .flat_map(|(b, part)| &b.bytes()[part])
                        .copied()
                        .collect(),
                )
            }
        }
    }
}
