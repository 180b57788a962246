//! Clusters that are still to come, by where they lie in the file.

use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of memory that one entry is reckoned at.
const ENTRY: usize = 64;

/// What lies at a place of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// Bytes as they are, for one stretch of the disk.
    Data { len: u64 },
    /// One compressed cluster.
    Compressed { len: u32, guest_len: u32 },
}

impl Want {
    fn len(self) -> u64 {
        match self {
            Self::Data { len } => len,
            Self::Compressed { len, .. } => len.into(),
        }
    }
}

/// Ordered by place in the file, then on the disk.
#[derive(Debug)]
pub(super) struct Wants {
    map: BTreeMap<(u64, u64), Want>,
    most: usize,
}

impl Wants {
    /// As many as fit `memory` bytes.
    pub(super) fn new(memory: usize) -> Self {
        Self {
            map: BTreeMap::new(),
            most: memory / ENTRY,
        }
    }

    /// Whether `count` more fit.
    pub(super) fn has_room(&self, count: usize) -> bool {
        self.map.len().saturating_add(count) <= self.most
    }

    /// Bytes of memory that `count` entries need.
    pub(super) fn memory(count: usize) -> usize {
        count.saturating_mul(ENTRY)
    }

    /// The limit.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    pub(super) fn insert(&mut self, host: u64, guest: u64, want: Want) {
        self.map.insert((host, guest), want);
    }

    pub(super) fn remove(&mut self, key: (u64, u64)) {
        self.map.remove(&key);
    }

    /// The first at or behind `from` that starts before `end`.
    pub(super) fn next(&self, from: (u64, u64), end: u64) -> Option<((u64, u64), Want)> {
        if from >= (end, 0) {
            return None;
        }
        self.map
            .range(from..(end, 0))
            .next()
            .map(|(key, want)| (*key, *want))
    }

    /// Stretches of the file that cover everything wanted, in whole blocks,
    /// joined where the gap is smaller than `gap`.
    pub(super) fn cover(&self, block: u64, gap: u64) -> Vec<Range<u64>> {
        let mut ranges = Vec::new();
        for ((host, _), want) in &self.map {
            join(
                &mut ranges,
                *host..host.saturating_add(want.len()),
                block,
                gap,
            );
        }
        ranges
    }
}

/// Adds `range`, grown to whole blocks, to ascending `ranges`.
pub(super) fn join(ranges: &mut Vec<Range<u64>>, range: Range<u64>, block: u64, gap: u64) {
    let start = range.start - range.start % block;
    let end = range.end.div_ceil(block).saturating_mul(block);
    match ranges.last_mut() {
        Some(last) if start <= last.end.saturating_add(gap) => last.end = last.end.max(end),
        _ => ranges.push(start..end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cover_is_whole_blocks_and_joined() {
        let mut wants = Wants::new(1 << 20);
        wants.insert(100, 0, Want::Data { len: 10 });
        wants.insert(1020, 0, Want::Data { len: 10 });
        wants.insert(
            9000,
            0,
            Want::Compressed {
                len: 5,
                guest_len: 1,
            },
        );
        assert_eq!(wants.cover(1024, 0), [0..2048, 8192..9216]);
        assert_eq!(
            wants.cover(1024, 8192).as_slice(),
            std::slice::from_ref(&(0..9216))
        );
    }
}
