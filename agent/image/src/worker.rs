//! The threads that write: they take jobs, inflate where needed, and put the
//! bytes on the disk.

use std::ops::Range;
use std::sync::Arc;

use flate2::Decompress;
use flate2::FlushDecompress;
use flate2::Status;

use crate::buffer::Aligned;
use crate::buffer::Block;
use crate::control::Control;
use crate::control::Stopped;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
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

/// One compressed cluster.
#[derive(Debug)]
pub(crate) struct Compressed {
    /// Its bytes, in order, from one or more blocks.
    pub(crate) pieces: Vec<(Arc<Block>, Range<usize>)>,
    /// Offset in the source, for messages.
    pub(crate) host: u64,
    /// Place on the disk.
    pub(crate) at: u64,
    /// Bytes of it that are on the disk.
    pub(crate) len: usize,
}

/// Sizes that a worker needs to know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Bytes of a decoded cluster; 0 where nothing is compressed.
    pub(crate) cluster: usize,
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
        inflate: None,
    };
    loop {
        match jobs.queue.pop(jobs.control) {
            Ok(Popped::Item(job)) => {
                let result = worker.handle(job, sink);
                jobs.queue.done();
                if let Err(error) = result {
                    jobs.control.fail(error);
                    return;
                }
            }
            Ok(Popped::Idle) => {}
            Ok(Popped::Closed) | Err(Stopped) => return,
        }
    }
}

struct Worker {
    sizes: Sizes,
    bounce: Bounce,
    inflate: Option<(Decompress, Aligned)>,
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
        let (decoder, scratch) = self
            .inflate
            .get_or_insert_with(|| (Decompress::new(false), Aligned::new(sizes.scratch)));
        let Some(first) = batch.first().map(|cluster| cluster.at) else {
            return Ok(());
        };
        let mut filled = 0;
        for cluster in batch {
            let out = &mut scratch[filled..filled + sizes.cluster];
            inflate_cluster(decoder, &cluster, out)?;
            filled += cluster.len;
        }
        sink.put(&scratch[..filled], first, &mut self.bounce)
    }
}

/// Inflates one cluster; its input may be longer than needed, because it
/// ends with a sector and not with the data.
fn inflate_cluster(
    decoder: &mut Decompress,
    cluster: &Compressed,
    out: &mut [u8],
) -> Result<(), Error> {
    let damaged = |problem: &str| {
        let text = format!(
            "the compressed cluster for guest offset {} {problem}",
            cluster.at
        );
        Error::new(ErrorKind::Format, Stage::Decode, text).at(cluster.host)
    };
    decoder.reset(false);
    for (block, range) in &cluster.pieces {
        let mut input = &block.bytes()[range.clone()];
        loop {
            let (had, made) = (decoder.total_in(), decoder.total_out());
            // Bounded by the cluster: at most 2 MiB.
            let place = &mut out[made as usize..];
            let status = decoder
                .decompress(input, place, FlushDecompress::None)
                .map_err(|error| damaged("cannot be inflated").caused_by(error))?;
            input = &input[(decoder.total_in() - had) as usize..];
            if decoder.total_out() as usize == out.len() {
                return Ok(());
            }
            match status {
                Status::StreamEnd => return Err(damaged("inflates to less than a cluster")),
                _ if input.is_empty() => break,
                _ if decoder.total_in() == had && decoder.total_out() == made => {
                    return Err(damaged("cannot be inflated any further"));
                }
                _ => {}
            }
        }
    }
    Err(damaged("is cut off"))
}
