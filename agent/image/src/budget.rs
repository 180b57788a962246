//! Sharing the memory budget out.

use wrought_formats::qcow2;
use wrought_formats::qcow2::Compression;

use crate::container::Container;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::qcow2::Limits;
use crate::request::LEAST_MEMORY;
use crate::worker::Sizes;

const MIB: u64 = 1 << 20;
/// Held-back ends, and zeroes for the ends.
const ENDS: u64 = 3 * MIB;
/// A worker's memory for unaligned data.
const BOUNCE: u64 = 256 << 10;
/// Writers: the depth of the queue at the disk.
const WORKERS: u64 = 6;
/// Blocks that must be free beside those a decoder holds.
const SPARE_BLOCKS: u64 = 4;
/// More blocks than this bring nothing, whatever the budget.
const MOST_BLOCKS: u64 = 32;

/// Outside of our buffers: HTTP and TLS state, decoders, stacks, and what the
/// allocator of each thread holds back. A share of the budget, within bounds:
/// at the default budget the peak was measured to be 65 MiB with a fifth.
fn other(memory: u64) -> u64 {
    (memory / 4).clamp(3 * MIB, 14 * MIB)
}

/// The least of it, where large clusters need the rest.
fn least_other(memory: u64) -> u64 {
    (memory / 5).clamp(3 * MIB, 12 * MIB)
}

/// Blocks of compressed bytes between fetching, hashing and decoding them.
pub(crate) const PACKED_BLOCKS: usize = 4;

/// The budget, or what a container leaves of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// Bytes of the whole budget, for messages.
    total: u64,
    /// Bytes that can be shared out.
    left: u64,
}

impl Memory {
    /// All of `total` bytes.
    pub(crate) fn new(total: u64) -> Self {
        Self { total, left: total }
    }

    /// What is left beside a container's decoder and its blocks. A decoder
    /// that has a use for more memory than it needs gets half of what can be
    /// spared.
    pub(crate) fn beside(self, container: &mut Container) -> Result<Self, Error> {
        let blocks = PACKED_BLOCKS as u64 * self.block();
        let need = container.memory + blocks;
        if let Some(spare) = self.left.checked_sub(need + LEAST_MEMORY) {
            if container.kind.takes_spare_memory() {
                container.memory += spare / 2;
            }
            let left = self.left - blocks - container.memory;
            return Ok(Self { left, ..self });
        }
        let text = format!(
            "decoding the {} image needs a window of {} MiB, about {} MiB of memory together, the \
             budget is {} MiB (--memory)",
            container.kind.format(),
            container.memory.div_ceil(MIB),
            (need + LEAST_MEMORY).div_ceil(MIB),
            self.total / MIB
        );
        Err(Error::new(ErrorKind::Memory, Stage::Check, text))
    }

    /// Bytes of a block, which must be known before the image is.
    pub(crate) fn block(self) -> u64 {
        if self.total >= 32 * MIB {
            1 << 20
        } else {
            256 << 10
        }
    }
}

/// How one write uses its memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// Number of block buffers.
    pub(crate) blocks: usize,
    /// Writer threads.
    pub(crate) workers: usize,
    /// For the writers.
    pub(crate) sizes: Sizes,
    /// For the qcow2 placer.
    pub(crate) limits: Limits,
}

impl Budget {
    /// For an image that is written as it is.
    pub(crate) fn raw(memory: Memory) -> Self {
        let block = memory.block();
        let memory = memory.left;
        let left = memory.saturating_sub(other(memory) + ENDS + WORKERS * BOUNCE);
        Self {
            blocks: (left / block).clamp(SPARE_BLOCKS + 3, MOST_BLOCKS) as usize,
            workers: WORKERS as usize,
            sizes: Sizes {
                cluster: 0,
                scratch: 0,
                scratches: 0,
                compression: Compression::Zlib,
            },
            limits: Limits {
                metadata: 0,
                block,
                batch: 0,
            },
        }
    }

    /// For a qcow2 image: fewer workers where clusters are large.
    pub(crate) fn qcow2(memory: Memory, header: &qcow2::Header) -> Result<Self, Error> {
        let block = memory.block();
        let Memory {
            total,
            left: memory,
        } = memory;
        let cluster = header.cluster_size();
        // One piece is decoded to while the other is written; large clusters
        // take turns.
        let scratch = cluster.max(block.min(MIB / 4));
        let scratches = (MIB / 2 / scratch).max(1);
        // A worker's copy of a compressed cluster that spans blocks. A table
        // could name twice as much, but what does not shrink is not
        // compressed.
        let joined = match header.compression {
            Compression::Zlib => 0,
            Compression::Zstd => cluster,
        };
        // What a decoder, and the allocator under it, was measured to take
        // beyond that at the default budget: about 0.4 and 0.8 MiB.
        let decoder = match header.compression {
            Compression::Zlib => memory / 120,
            Compression::Zstd => memory / 60,
        };
        let worker = BOUNCE + scratches * scratch + joined + decoder;
        // What the placer keeps for tables and clusters that span blocks,
        // and a copy of one table.
        let window = 2 * cluster + 2 * block + cluster;
        // Less for tables where nothing else fits: more passes then.
        let tight = (memory / 8, 1);
        let choices = (1..=WORKERS).rev().map(|workers| (memory / 4, workers));
        let choices = choices.chain([tight]);
        let reserves = [other(memory), least_other(memory)].into_iter();
        let all = reserves.flat_map(|reserve| choices.clone().map(move |one| (reserve, one)));
        for (reserve, (metadata, workers)) in all {
            let fixed = reserve + ENDS + metadata + window + workers * worker;
            let Some(left) = memory.checked_sub(fixed) else {
                continue;
            };
            let blocks = left / block;
            if blocks < SPARE_BLOCKS.max(workers / 2) {
                continue;
            }
            return Ok(Self {
                blocks: (blocks + (2 * cluster) / block + 2).min(MOST_BLOCKS) as usize,
                workers: workers as usize,
                sizes: Sizes {
                    cluster: cluster as usize,
                    scratch: scratch as usize,
                    scratches: scratches as usize,
                    compression: header.compression,
                },
                limits: Limits {
                    metadata: metadata as usize,
                    block,
                    batch: scratch as usize,
                },
            });
        }
        let need = least_other(memory) + ENDS + window + worker + SPARE_BLOCKS * block;
        let need = (need * 8 / 7 + (total - memory)).div_ceil(MIB);
        let text = format!(
            "an image with clusters of {cluster} bytes needs about {need} MiB of memory, the budget \
             is {} MiB (--memory)",
            total / MIB
        );
        Err(Error::new(ErrorKind::Memory, Stage::Check, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cluster_size_fits_the_default_and_nothing_exceeds_it() {
        let mut header = qcow2::Header {
            version: 3,
            cluster_bits: 9,
            virtual_size: 1 << 30,
            l1_offset: 1 << 21,
            l1_entries: 1,
            snapshots: 0,
            extended_l2: false,
            compression: qcow2::Compression::Zlib,
            file_size: None,
        };
        for memory in [16, 24, 32, 48, 64, 512] {
            for bits in 9..=21 {
                header.cluster_bits = bits;
                let Ok(budget) = Budget::qcow2(Memory::new(memory * MIB), &header) else {
                    assert!(memory < 32 && bits > 17, "{memory} MiB, {bits} bits");
                    continue;
                };
                let used = budget.blocks as u64 * budget.limits.block
                    + budget.workers as u64
                        * ((budget.sizes.scratch * budget.sizes.scratches) as u64 + BOUNCE)
                    + budget.limits.metadata as u64
                    + least_other(memory * MIB)
                    + ENDS;
                assert!(used <= memory * MIB, "{memory} MiB, {bits} bits: {used}");
            }
            let raw = Budget::raw(Memory::new(memory * MIB));
            assert!(raw.blocks as u64 * raw.limits.block <= memory * MIB);
        }
    }
}
