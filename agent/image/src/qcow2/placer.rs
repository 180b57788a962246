//! From blocks of the file to jobs for the writers.

use std::ops::Range;
use std::sync::Arc;

use wrought_formats::qcow2::Header;
use wrought_formats::qcow2::Mapping;
use wrought_formats::qcow2::l1_entry;

use super::digests::Digests;
use super::wants::Want;
use super::wants::Wants;
use super::wants::join;
use super::window::Held;
use super::window::Window;
use crate::buffer::Block;
use crate::cluster::Compressed;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::halt::Halt;
use crate::worker::Job;
use crate::worker::Jobs;

/// Bytes of memory per L1 entry: its offset and its place in the order.
const L1_ENTRY: u64 = 12;
/// Blocks between two wanted ones that are read rather than skipped.
const GAP_BLOCKS: u64 = 4;

/// Sizes that the memory budget allows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Bytes for tables, wanted clusters and digests together.
    pub(crate) metadata: usize,
    /// Bytes of a block.
    pub(crate) block: u64,
    /// Bytes of compressed clusters decoded in one job.
    pub(crate) batch: usize,
}

/// Places one qcow2 image.
#[derive(Debug)]
pub(crate) struct Placer {
    header: Header,
    limits: Limits,
    /// The hashed pass is running.
    first_pass: bool,
    /// L1 bytes as they come, until complete.
    l1_bytes: Vec<u8>,
    /// L2 table offsets by L1 index; 0 where there is none.
    l1: Option<Vec<u64>>,
    /// L1 indices whose tables this pass looks out for, by table offset.
    tables: Vec<u32>,
    cursor: usize,
    /// L1 indices left for a later pass.
    left: Vec<u32>,
    wants: Wants,
    window: Window,
    digests: Digests,
    batch: Vec<Compressed>,
    /// Guest bytes handed out, to see that all were.
    placed: u64,
}

impl Placer {
    /// Starts the hashed pass.
    pub(crate) fn new(header: Header, limits: Limits) -> Result<Self, Error> {
        let share = limits.metadata / 3;
        let need = u64::from(header.l1_entries) * L1_ENTRY;
        if need > share as u64 {
            let text = format!(
                "the image's L1 table needs {need} bytes of memory and the budget leaves {share}; \
                 give about {} MiB (--memory)",
                (need * 12).div_ceil(1 << 20) + 1
            );
            return Err(Error::new(ErrorKind::Memory, Stage::Check, text));
        }
        Ok(Self {
            header,
            limits,
            first_pass: true,
            l1_bytes: Vec::new(),
            l1: None,
            tables: Vec::new(),
            cursor: 0,
            left: Vec::new(),
            wants: Wants::new(share),
            window: Window::default(),
            digests: Digests::new(share),
            batch: Vec::new(),
            placed: 0,
        })
    }

    /// Takes the next block of the pass.
    pub(crate) fn block(&mut self, block: Arc<Block>, jobs: Jobs<'_>) -> Result<(), Halt> {
        let trusted = self.first_pass || self.digests.check(&block)?;
        if self.window.end().is_some_and(|end| end != block.offset) {
            self.empty_window()?;
        }
        self.window.push(Arc::clone(&block), trusted);
        if self.first_pass {
            self.trust(0..self.header.cluster_size())?;
        }
        self.read_l1(&block, jobs)?;
        self.read_tables(jobs)?;
        self.place_wanted(jobs)?;
        self.flush_batch(jobs)?;
        let retain = 2 * self.header.cluster_size();
        while let Some(held) = self.window.pop(retain) {
            self.retire(held)?;
        }
        Ok(())
    }

    /// Ends a pass. After the hashed one, `end` is the length of the file.
    pub(crate) fn end_pass(&mut self, end: u64, jobs: Jobs<'_>) -> Result<(), Halt> {
        if self.first_pass {
            self.header.file_size = Some(end);
            if self.l1.is_none() {
                let text = "the qcow2 image ends before its L1 table does";
                return Err(Error::new(ErrorKind::Format, Stage::Decode, text)
                    .at(end)
                    .into());
            }
        }
        self.cut_at_end(end, jobs)?;
        self.empty_window()?;
        self.left
            .extend_from_slice(self.tables.get(self.cursor..).unwrap_or_default());
        self.tables.clear();
        self.cursor = 0;
        self.first_pass = false;
        Ok(())
    }

    /// What a later pass must read, in whole blocks; `None` when all is
    /// placed.
    pub(crate) fn next_pass(&mut self) -> Result<Option<Vec<Range<u64>>>, Error> {
        let (block, gap) = (self.limits.block, GAP_BLOCKS * self.limits.block);
        if !self.wants.is_empty() {
            return Ok(Some(self.wants.cover(block, gap)));
        }
        if self.left.is_empty() {
            return if self.placed == self.header.virtual_size {
                Ok(None)
            } else {
                let text = format!(
                    "{} of {} bytes of the disk were placed",
                    self.placed, self.header.virtual_size
                );
                Err(Error::new(ErrorKind::Internal, Stage::Decode, text))
            };
        }
        // As many tables as surely fit, at least one.
        let l1 = self.l1.as_deref().unwrap_or_default();
        self.left.sort_unstable_by_key(|index| l1[*index as usize]);
        let entries = self.header.cluster_size() / self.header.l2_entry_size();
        let count = (self.wants.most() as u64 / entries).max(1);
        let count = usize::try_from(count)
            .unwrap_or(usize::MAX)
            .min(self.left.len());
        self.tables = self.left.drain(..count).collect();
        let mut ranges = Vec::new();
        for index in &self.tables {
            let table = l1[*index as usize];
            join(
                &mut ranges,
                table..table + self.header.cluster_size(),
                block,
                gap,
            );
        }
        Ok(Some(ranges))
    }

    /// Collects the L1 table in the hashed pass.
    fn read_l1(&mut self, block: &Block, jobs: Jobs<'_>) -> Result<(), Halt> {
        if self.l1.is_some() {
            return Ok(());
        }
        let start = self.header.l1_offset;
        let range = start..start + self.header.l1_bytes();
        let part = block.part(&range);
        if part.is_empty() {
            return Ok(());
        }
        self.l1_bytes.extend_from_slice(&block.bytes()[part]);
        self.trust(range)?;
        if (self.l1_bytes.len() as u64) < self.header.l1_bytes() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.l1_bytes);
        let mut l1 = Vec::with_capacity(self.header.l1_entries as usize);
        let mut zero = 0..0;
        for (entry, index) in bytes.as_chunks::<8>().0.iter().zip(0u32..) {
            let table = l1_entry(&self.header, index, u64::from_be_bytes(*entry))?;
            l1.push(table.unwrap_or(0));
            if table.is_some() {
                self.tables.push(index);
                continue;
            }
            let start = u64::from(index) * self.header.l2_span();
            let end = (start + self.header.l2_span()).min(self.header.virtual_size);
            if zero.end == start {
                zero.end = end;
            } else {
                self.put_zero(zero, jobs)?;
                zero = start..end;
            }
        }
        self.put_zero(zero, jobs)?;
        self.tables.sort_by_key(|index| l1[*index as usize]);
        self.l1 = Some(l1);
        Ok(())
    }

    fn put_zero(&mut self, range: Range<u64>, jobs: Jobs<'_>) -> Result<(), Halt> {
        if !range.is_empty() {
            self.placed += range.end - range.start;
            jobs.push(Job::Zero {
                at: range.start,
                len: range.end - range.start,
            })?;
        }
        Ok(())
    }

    /// Takes in the L2 tables that are whole in the window.
    fn read_tables(&mut self, jobs: Jobs<'_>) -> Result<(), Halt> {
        let (Some(start), Some(end)) = (self.window.start(), self.window.end()) else {
            return Ok(());
        };
        let size = self.header.cluster_size();
        while let Some(index) = self.tables.get(self.cursor).copied() {
            let table = self.l1.as_ref().map_or(0, |l1| l1[index as usize]);
            if table + size > end {
                break;
            }
            self.cursor += 1;
            if table < start || !self.read_table(index, table, jobs)? {
                self.left.push(index);
            }
        }
        Ok(())
    }

    /// Takes in one table; `false` when there is no room for its clusters.
    fn read_table(&mut self, index: u32, table: u64, jobs: Jobs<'_>) -> Result<bool, Halt> {
        let range = table..table + self.header.cluster_size();
        let bytes = self.window.bytes(range.clone()).into_owned();
        let mut count = 0;
        self.header.map_l2(index, &bytes, |mapping| {
            count += usize::from(!matches!(mapping, Mapping::Zero { .. }));
            Ok::<(), Halt>(())
        })?;
        // A stretch may be split once where the window starts.
        if !self.wants.has_room(count + 1) {
            if self.wants.is_empty() {
                let text = format!(
                    "one L2 table names {count} scattered clusters, the budget holds {}; give {} \
                     MiB more (--memory)",
                    self.wants.most(),
                    (Wants::memory(count) * 12).div_ceil(1 << 20)
                );
                return Err(Error::new(ErrorKind::Memory, Stage::Decode, text)
                    .at(table)
                    .into());
            }
            return Ok(false);
        }
        self.trust(range)?;
        let start = self.window.start().unwrap_or(0);
        let header = self.header.clone();
        header.map_l2(index, &bytes, |mapping| {
            match mapping {
                Mapping::Zero { guest, len } => self.put_zero(guest..guest + len, jobs)?,
                Mapping::Data { guest, host, len } => {
                    let before = start.saturating_sub(host).min(len);
                    if before > 0 {
                        self.wants.insert(host, guest, Want::Data { len: before });
                    }
                    if before < len {
                        let want = Want::Data { len: len - before };
                        self.wants.insert(host + before, guest + before, want);
                    }
                }
                Mapping::Compressed {
                    guest,
                    guest_len,
                    host,
                    len,
                } => {
                    // Both are at most two clusters: 4 MiB.
                    let want = Want::Compressed {
                        len: len as u32,
                        guest_len: guest_len as u32,
                    };
                    self.wants.insert(host, guest, want);
                }
            }
            Ok::<(), Halt>(())
        })?;
        Ok(true)
    }

    /// Hands out every wanted cluster that is in the window.
    fn place_wanted(&mut self, jobs: Jobs<'_>) -> Result<(), Halt> {
        let (Some(start), Some(end)) = (self.window.start(), self.window.end()) else {
            return Ok(());
        };
        let mut from = (start, 0);
        while let Some((key, want)) = self.wants.next(from, end) {
            let (host, guest) = key;
            from = (host, guest + 1);
            match want {
                Want::Data { len } => {
                    let here = len.min(end - host);
                    self.wants.remove(key);
                    if here < len {
                        self.wants
                            .insert(end, guest + here, Want::Data { len: len - here });
                    }
                    self.put_data(host, guest, here, jobs)?;
                }
                Want::Compressed { len, guest_len } if host + u64::from(len) <= end => {
                    self.wants.remove(key);
                    self.put_compressed(host, guest, len, guest_len, jobs)?;
                }
                // Its rest comes with the next block.
                Want::Compressed { .. } => {}
            }
        }
        Ok(())
    }

    fn put_data(&mut self, host: u64, guest: u64, len: u64, jobs: Jobs<'_>) -> Result<(), Halt> {
        self.trust(host..host + len)?;
        self.placed += len;
        for (block, range) in self.window.pieces(host..host + len) {
            let at = guest + (block.offset + range.start as u64 - host);
            jobs.push(Job::Data {
                block: Arc::clone(block),
                range,
                at,
            })?;
        }
        Ok(())
    }

    fn put_compressed(
        &mut self,
        host: u64,
        guest: u64,
        len: u32,
        guest_len: u32,
        jobs: Jobs<'_>,
    ) -> Result<(), Halt> {
        let range = host..host + u64::from(len);
        self.trust_rounded(range.clone())?;
        self.placed += u64::from(guest_len);
        let follows = self
            .batch
            .last()
            .is_none_or(|last| last.at + last.len as u64 == guest);
        let cluster = self.header.cluster_size() as usize;
        if !follows || (self.batch.len() + 1) * cluster > self.limits.batch {
            self.flush_batch(jobs)?;
        }
        let pieces = self
            .window
            .pieces(range)
            .map(|(b, part)| (Arc::clone(b), part))
            .collect();
        self.batch.push(Compressed {
            pieces,
            host,
            at: guest,
            len: guest_len as usize,
        });
        Ok(())
    }

    /// Marks bytes as understood. Bytes of a later pass that were understood
    /// in the first one have no digest: they would be used twice.
    fn trust(&mut self, range: Range<u64>) -> Result<(), Error> {
        let start = range.start;
        trusted(self.window.mark(range, false), start)
    }

    /// The same for a compressed cluster.
    fn trust_rounded(&mut self, range: Range<u64>) -> Result<(), Error> {
        let start = range.start;
        trusted(self.window.mark(range, true), start)
    }

    fn flush_batch(&mut self, jobs: Jobs<'_>) -> Result<(), Halt> {
        if !self.batch.is_empty() {
            jobs.push(Job::Inflate(std::mem::take(&mut self.batch)))?;
        }
        Ok(())
    }

    /// Deals with clusters that reach past the end of the file: QEMU leaves
    /// the unwritten rest of the last cluster out, it reads as zero.
    fn cut_at_end(&mut self, end: u64, jobs: Jobs<'_>) -> Result<(), Halt> {
        let cluster = self.header.cluster_size();
        let from = end.saturating_sub(2 * cluster);
        let mut from = (from, 0);
        while let Some((key, want)) = self.wants.next(from, u64::MAX) {
            let (host, guest) = key;
            from = (host, guest + 1);
            match want {
                Want::Data { len } if host >= end => {
                    self.wants.remove(key);
                    let first = host - host % cluster;
                    if first >= end || host + len > first + cluster {
                        return Err(past_end(host).into());
                    }
                    self.put_zero(guest..guest + len, jobs)?;
                }
                Want::Compressed { len, guest_len } if host + u64::from(len) > end => {
                    self.wants.remove(key);
                    let Some(here) = end.checked_sub(host).filter(|here| *here > 0) else {
                        return Err(past_end(host).into());
                    };
                    // Less than `len`, which is a u32.
                    let here = here as u32;
                    if self.window.start().is_some_and(|start| host >= start) {
                        self.put_compressed(host, guest, here, guest_len, jobs)?;
                    } else {
                        let want = Want::Compressed {
                            len: here,
                            guest_len,
                        };
                        self.wants.insert(host, guest, want);
                    }
                }
                _ => {}
            }
        }
        self.flush_batch(jobs)
    }

    fn empty_window(&mut self) -> Result<(), Error> {
        while let Some(held) = self.window.pop(0) {
            self.retire(held)?;
        }
        Ok(())
    }

    /// Whether tables that were not read yet may name more clusters.
    fn tables_left(&self) -> bool {
        self.l1.is_none() || self.cursor < self.tables.len() || !self.left.is_empty()
    }

    /// A block leaves the window: keeps its digest if it may be needed again.
    fn retire(&mut self, held: Held) -> Result<(), Error> {
        if !self.first_pass {
            return Ok(());
        }
        let block = Arc::clone(&held.block);
        if held.into_used_up(self.tables_left()) {
            Ok(())
        } else {
            self.digests.keep(&block)
        }
    }
}

/// Refuses bytes of a block that cannot be checked.
fn trusted(sure: bool, start: u64) -> Result<(), Error> {
    if sure {
        return Ok(());
    }
    let text = "the image uses one place of the file twice, which cannot be streamed; convert it \
                once with 'qemu-img convert -O qcow2'";
    Err(Error::new(ErrorKind::Format, Stage::Decode, text).at(start))
}

fn past_end(host: u64) -> Error {
    let text = "the qcow2 image ends before a cluster that its tables name";
    Error::new(ErrorKind::Format, Stage::Decode, text).at(host)
}
