//! The threads that write: they take jobs, decode where needed, and put the
//! bytes on the disk.

use std::ops::Range;
use std::sync::Arc;

use wrought_formats::qcow2::Compression;

use crate::buffer::Aligned;
use crate::buffer::Block;
use crate::cluster::ClusterDecoder;
use crate::cluster::Compressed;
use crate::control::Control;
use crate::control::Stopped;
use crate::error::Error;
use crate::queue::Popped;
use crate::queue::Queue;
use crate::sink::Sink;
use crate::target::Bounce;

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
    /// Bytes of scratch memory for decoded clusters.
    pub(crate) scratch: usize,
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
    let mut worker = Worker {
        sizes,
        bounce: Bounce::default(),
        decoder: None,
    };
    loop {
        match jobs.queue.pop(jobs.control) {
            Ok(Popped::Item(job)) => {
                // A damaged image is only hashed any more.
                if !jobs.control.damaged()
                    && let Err(error) = worker.handle(job, sink)
                {
                    jobs.control.fail(error);
                }
                jobs.queue.done();
            }
            Ok(Popped::Idle) => {}
            Ok(Popped::Closed) | Err(Stopped) => return,
        }
    }
}

struct Worker {
    sizes: Sizes,
    bounce: Bounce,
    decoder: Option<(ClusterDecoder, Aligned)>,
}

impl Worker {
    fn handle(&mut self, job: Job, sink: &Sink<'_>) -> Result<(), Error> {
        match job {
            Job::Data { block, range, at } => sink.put(&block.bytes()[range], at, &mut self.bounce),
            Job::Zero { at, len } => sink.zero(at, len, &mut self.bounce),
            Job::Inflate(batch) => self.inflate(batch, sink),
        }
    }

    fn inflate(&mut self, batch: Vec<Compressed>, sink: &Sink<'_>) -> Result<(), Error> {
        let sizes = self.sizes;
        let (decoder, scratch) = match &mut self.decoder {
            Some(made) => made,
            none => none.insert((
                ClusterDecoder::new(sizes.compression)?,
                Aligned::new(sizes.scratch),
            )),
        };
        let Some(first) = batch.first().map(|cluster| cluster.at) else {
            return Ok(());
        };
        let mut filled = 0;
        for cluster in batch {
            let out = &mut scratch[filled..filled + sizes.cluster];
            decoder.decode(&cluster, out)?;
            filled += cluster.len;
        }
        sink.put(&scratch[..filled], first, &mut self.bounce)
    }
}
