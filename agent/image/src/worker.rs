//! The threads that write: they take jobs, decode where needed, and put the
//! bytes on the disk.

use std::ops::Range;
use std::sync::Arc;

use wrought_formats::qcow2::Compression;

use crate::buffer::Block;
use crate::cluster::ClusterDecoder;
use crate::cluster::Compressed;
use crate::control::Control;
use crate::control::Stopped;
use crate::error::Error;
use crate::queue::Popped;
use crate::queue::Queue;
use crate::sink::Sink;
use crate::target::Lane;
use crate::target::Payload;
use crate::target::Scratch;

/// Something to put on the disk.
#[derive(Debug)]
pub(crate) enum Job {
    /// Bytes of a block as they are.
    Data {
        block: Arc<Block>,
        range: Range<usize>,
        at: u64,
    },
    /// Zeroes.
    Zero { at: u64, len: u64 },
    /// Compressed clusters that follow each other on the disk.
    Inflate(Vec<Compressed>),
}

/// Sizes that a worker needs to know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Bytes of a decoded cluster; 0 where nothing is compressed.
    pub(crate) cluster: usize,
    /// How clusters are compressed.
    pub(crate) compression: Compression,
    /// Bytes of a piece of scratch memory for decoded clusters.
    pub(crate) scratch: usize,
    /// Pieces of scratch memory.
    pub(crate) scratches: usize,
}

/// Where decoders hand their jobs in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Jobs<'a> {
    pub(crate) queue: &'a Queue<Job>,
    pub(crate) control: &'a Control,
}

impl Jobs<'_> {
    pub(crate) fn push(&self, job: Job) -> Result<(), Stopped> {
        self.queue.push(job, self.control)
    }
}

/// Runs until the queue is closed or the write stops.
pub(crate) fn run(jobs: Jobs<'_>, sink: &Sink<'_>, sizes: Sizes) {
    let scratch = Scratch {
        size: sizes.scratch,
        most: sizes.scratches,
    };
    let mut worker = Worker {
        sizes,
        lane: Lane::new(sink.target, scratch),
        decoder: None,
    };
    worker.work(jobs, sink);
}

struct Worker<'a> {
    sizes: Sizes,
    lane: Lane<'a>,
    decoder: Option<ClusterDecoder>,
}

impl Worker<'_> {
    fn work(&mut self, jobs: Jobs<'_>, sink: &Sink<'_>) {
        // Jobs taken and not yet reported done: their writes are on their way.
        let mut owed = 0;
        loop {
            let busy = self.lane.is_busy();
            let popped = if busy {
                jobs.queue.pop_now(jobs.control)
            } else {
                jobs.queue.pop(jobs.control)
            };
            let result = match popped {
                Ok(Popped::Item(job)) => {
                    owed += 1;
                    // A damaged image is only hashed any more.
                    if jobs.control.damaged() {
                        Ok(())
                    } else {
                        self.handle(job, sink)
                    }
                }
                Ok(Popped::Idle | Popped::Closed) if busy => self.lane.wait(),
                Ok(Popped::Idle) => Ok(()),
                Ok(Popped::Closed) | Err(Stopped) => return,
            };
            if let Err(error) = result {
                jobs.control.fail(error);
            }
            if !self.lane.is_busy() {
                (0..owed).for_each(|_| jobs.queue.done());
                owed = 0;
            }
        }
    }

    fn handle(&mut self, job: Job, sink: &Sink<'_>) -> Result<(), Error> {
        let lane = &mut self.lane;
        match job {
            Job::Data { block, range, at } => sink.put(Payload::Block(block), range, at, lane),
            Job::Zero { at, len } => sink.zero(at, len, lane),
            Job::Inflate(batch) => self.decode(&batch, sink),
        }
    }

    fn decode(&mut self, batch: &[Compressed], sink: &Sink<'_>) -> Result<(), Error> {
        let Some(first) = batch.first() else {
            return Ok(());
        };
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(ClusterDecoder::new(self.sizes.compression)?),
        };
        let mut scratch = self.lane.scratch()?;
        let mut filled = 0;
        for cluster in batch {
            let out = &mut scratch[filled..filled + self.sizes.cluster];
            decoder.decode(cluster, out)?;
            filled += cluster.len;
        }
        sink.put(
            Payload::Scratch(scratch),
            0..filled,
            first.at,
            &mut self.lane,
        )
    }
}
