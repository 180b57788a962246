//! The threads of one write and what runs between them.
//!
//! fetch → (blocks of a fixed pool) → hash, and beside it decode → jobs →
//! writers. The pool is the only back-pressure. The thread that called runs
//! the decoder and reports progress.

mod fetch;
mod threads;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread;
use std::thread::Scope;
use std::thread::ScopedJoinHandle;

use wrought_formats::detect::Format;

use self::threads::joined;
use self::threads::spawn;
use crate::budget::Memory;
use crate::budget::PACKED_BLOCKS;
use crate::buffer::Block;
use crate::buffer::Pool;
use crate::checksum::Expected;
use crate::container;
use crate::container::BlockReader;
use crate::container::Container;
use crate::container::Limits;
use crate::container::Unpack;
use crate::control::Control;
use crate::control::Stopped;
use crate::decoder::Decoder;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::halt::Halt;
use crate::progress::Meter;
use crate::queue::Popped;
use crate::queue::Queue;
use crate::request::WriteRequest;
use crate::sink::Sink;
use crate::source::Source;
use crate::worker;
use crate::worker::Job;
use crate::worker::Jobs;

/// More blocks or jobs than ever wait; the pool and the disk are the bounds.
const BLOCK_QUEUE: usize = 256;
/// Decoded blocks before the image is known, and the budget shared out.
const FIRST_BLOCKS: usize = 2;
/// Jobs that may wait for a writer.
const JOB_QUEUE: usize = 512;

/// What the streaming part found out.
pub(crate) struct Streamed {
    pub(crate) container: Option<Format>,
    pub(crate) format: Format,
    pub(crate) source: String,
    pub(crate) bytes_in: u64,
    pub(crate) digest: String,
}

/// Streams everything to the sink and checks the digest. The target's ends
/// are zeroed once the image is known to fit; both its own ends are held
/// back in the sink afterwards.
pub(crate) fn stream(
    request: &WriteRequest,
    source: Box<dyn Source>,
    expected: &Expected,
    sink: &Sink<'_>,
    control: &Control,
    meter: &mut Meter,
) -> Result<Streamed, Error> {
    // At most 1 MiB.
    let block = Memory::new(request.memory).block() as usize;
    let run = Run {
        name: source.name().to_owned(),
        pool: Pool::new(block, PACKED_BLOCKS),
        blocks: Queue::new(BLOCK_QUEUE),
        unpacked_pool: Pool::new(block, FIRST_BLOCKS),
        unpacked: Queue::new(BLOCK_QUEUE),
        enough: AtomicBool::new(false),
        to_hash: Queue::new(BLOCK_QUEUE),
        jobs: Queue::new(JOB_QUEUE),
        control,
        announced: AtomicU64::new(u64::MAX),
    };
    let result = thread::scope(|scope| {
        let result = run.all(scope, request, source, expected, sink, meter);
        if let Err(Halt::Failed(error)) = result {
            // So that every thread and the scope end.
            control.stop(error);
            run.jobs.close();
            return Err(Halt::Stopped);
        }
        run.jobs.close();
        result
    });
    // A writer may have failed after the decoder was done.
    match (result, control.running()) {
        (Ok(streamed), Ok(())) => Ok(streamed),
        _ => Err(control.take_failure()),
    }
}

type Unpacker<'scope> = ScopedJoinHandle<'scope, Result<(), Stopped>>;

struct Run<'a> {
    /// Of the source, for messages.
    name: String,
    /// For the source's bytes.
    pool: Arc<Pool>,
    blocks: Queue<Arc<Block>>,
    /// For what a container decodes to.
    unpacked_pool: Arc<Pool>,
    unpacked: Queue<Arc<Block>>,
    /// Nothing more of the source is needed in this pass.
    enough: AtomicBool,
    to_hash: Queue<Arc<Block>>,
    jobs: Queue<Job>,
    control: &'a Control,
    announced: AtomicU64,
}

/// The hashed pass, when everything was read once.
struct Hashed<'env, 'scope> {
    container: Option<Container>,
    decoder: Decoder,
    /// Where the decoder's blocks come from.
    feed: &'env Queue<Arc<Block>>,
    unpacker: Option<Unpacker<'scope>>,
    /// Bytes that the decoder was given.
    end: u64,
}

impl Run<'_> {
    fn all<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        request: &WriteRequest,
        source: Box<dyn Source>,
        expected: &Expected,
        sink: &'env Sink<'env>,
        meter: &mut Meter,
    ) -> Result<Streamed, Halt> {
        let jobs = Jobs {
            queue: &self.jobs,
            control: self.control,
        };
        self.announce(source.length());
        let fetcher = spawn(scope, self.control, "fetch", move || self.fetch_all(source))?;
        let algorithm = expected.algorithm;
        let hasher = spawn(scope, self.control, "hash", move || self.hash(algorithm))?;

        let hashed = self.hashed_pass(scope, request, sink, jobs, meter)?;
        let (source, bytes_in) = joined(fetcher)??;
        let digest = joined(hasher)??;
        let damage = self.control.hashed();
        if digest != expected.hex {
            let error = mismatch(&self.name, expected, &digest);
            return Err(match damage {
                Some(damage) => error.caused_by(damage),
                None => error,
            }
            .into());
        }
        if let Some(damage) = damage {
            return Err(damage.into());
        }
        let container = hashed.container;
        let format = hashed.decoder.format();
        self.later_passes(scope, hashed, source, bytes_in, sink, jobs, meter)?;
        while !self.jobs.drained(self.control)? {
            self.tick(meter);
        }
        Ok(Streamed {
            container: container.map(|container| container.kind.format()),
            format,
            source: self.name.clone(),
            bytes_in,
            digest,
        })
    }

    /// Decodes what is fetched and hashed at the same time, all of it.
    fn hashed_pass<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        request: &WriteRequest,
        sink: &'env Sink<'env>,
        jobs: Jobs<'env>,
        meter: &mut Meter,
    ) -> Result<Hashed<'env, 'scope>, Halt> {
        let Some(first) = self.next_block(&self.blocks, meter)? else {
            let text = format!("the image {} is empty", self.name);
            return Err(Error::new(ErrorKind::Format, Stage::Fetch, text).into());
        };
        let mut memory = Memory::new(request.memory);
        let mut container = container::recognise(first.bytes())?;
        let mut unpacker = None;
        let (feed, first) = match &mut container {
            None => (&self.blocks, first),
            Some(container) => {
                memory = memory.beside(container)?;
                let reader = BlockReader::new(Some(first), &self.blocks, self.control);
                unpacker = Some(self.unpack(scope, *container, reader, Limits::All)?);
                let Some(first) = self.next_block(&self.unpacked, meter)? else {
                    let text = format!("the image {} decompresses to nothing", self.name);
                    return Err(Error::new(ErrorKind::Format, Stage::Decode, text).into());
                };
                (&self.unpacked, first)
            }
        };
        let total = self.total().filter(|_| container.is_none());
        let (mut decoder, budget) =
            Decoder::choose(request, container, memory, &first, total, sink)?;
        let pool = container.map_or(&self.pool, |_| &self.unpacked_pool);
        pool.grow(budget.blocks);
        self.control.touch();
        sink.target.zero_ends()?;
        if self.total().is_some() {
            self.control.hash_all();
        }
        for number in 0..budget.workers {
            let sizes = budget.sizes;
            let name = format!("write-{number}");
            spawn(scope, self.control, &name, move || {
                worker::run(jobs, sink, sizes)
            })?;
        }
        let mut end = 0;
        let mut next = Some(first);
        while let Some(block) = next {
            end = block.end();
            let done = decoder
                .check_unpacked(container, end, sink)
                .map_err(Halt::from)
                .and_then(|()| decoder.block(block, sink, jobs));
            self.survive(done)?;
            next = self.next_block(feed, meter)?;
            while self.control.damaged() && next.is_some() {
                next = self.next_block(feed, meter)?;
            }
        }
        let done = decoder.end_pass(end, sink, jobs);
        self.survive(done)?;
        Ok(Hashed {
            container,
            decoder,
            feed,
            unpacker,
            end,
        })
    }

    /// Fetches again whatever could not be placed when it passed. The source
    /// is `bytes_in` bytes long.
    #[expect(clippy::too_many_arguments, reason = "the parts of one write")]
    fn later_passes<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        hashed: Hashed<'env, 'scope>,
        mut source: Box<dyn Source>,
        bytes_in: u64,
        sink: &'env Sink<'env>,
        jobs: Jobs<'env>,
        meter: &mut Meter,
    ) -> Result<(), Halt> {
        let Hashed {
            container,
            mut decoder,
            feed,
            mut unpacker,
            end,
        } = hashed;
        while let Some(ranges) = decoder.next_pass()? {
            // The last one may still be dropping blocks.
            if let Some(unpacker) = unpacker.take() {
                joined(unpacker)??;
            }
            self.blocks.reopen();
            let ranges = match container {
                None => ranges,
                Some(container) => {
                    self.unpacked.reopen();
                    self.enough.store(false, Ordering::Release);
                    let reader = BlockReader::new(None, &self.blocks, self.control);
                    let limits = Limits::Ranges { ranges, end };
                    unpacker = Some(self.unpack(scope, container, reader, limits)?);
                    // The only way to the middle is from the start.
                    std::iter::once(0..bytes_in).collect()
                }
            };
            let fetcher = spawn(scope, self.control, "fetch-again", move || {
                self.fetch(source, &ranges, bytes_in)
            })?;
            while let Some(block) = self.next_block(feed, meter)? {
                decoder.block(block, sink, jobs)?;
            }
            decoder.end_pass(end, sink, jobs)?;
            source = joined(fetcher)??;
        }
        Ok(())
    }

    /// Starts the thread that decodes a container.
    fn unpack<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        container: Container,
        reader: BlockReader<'env>,
        limits: Limits,
    ) -> Result<Unpacker<'scope>, Error> {
        let unpack = Unpack {
            container,
            pool: &self.unpacked_pool,
            out: &self.unpacked,
            control: self.control,
            enough: &self.enough,
        };
        spawn(scope, self.control, "unpack", move || {
            unpack.run(reader, &limits)
        })
    }

    /// Takes an image that cannot be decoded for one that is only hashed, as
    /// far as that is possible.
    fn survive(&self, done: Result<(), Halt>) -> Result<(), Halt> {
        if let Err(Halt::Failed(error)) = done {
            self.control.fail(error);
        }
        Ok(self.control.running()?)
    }

    fn announce(&self, length: Option<u64>) {
        if let Some(length) = length {
            self.announced.store(length, Ordering::Relaxed);
            self.control.set_total(length);
        }
    }

    /// Length of the source, where the server announced it.
    fn total(&self) -> Option<u64> {
        Some(self.announced.load(Ordering::Relaxed)).filter(|total| *total != u64::MAX)
    }

    /// Waits for a block; `None` at the end of the pass.
    fn next_block(
        &self,
        feed: &Queue<Arc<Block>>,
        meter: &mut Meter,
    ) -> Result<Option<Arc<Block>>, Halt> {
        loop {
            self.tick(meter);
            match feed.pop(self.control)? {
                Popped::Item(block) => return Ok(Some(block)),
                Popped::Idle => {}
                Popped::Closed => return Ok(None),
            }
        }
    }

    fn tick(&self, meter: &mut Meter) {
        let bytes_in = self.control.bytes_in.load(Ordering::Relaxed);
        let bytes_out = self.control.bytes_out.load(Ordering::Relaxed);
        meter.tick(Stage::Write, bytes_in, self.control.total(), bytes_out);
    }
}

fn mismatch(name: &str, expected: &Expected, digest: &str) -> Error {
    let Expected {
        algorithm,
        hex,
        origin,
    } = expected;
    let text = format!(
        "the {algorithm} of {name} is {digest}, expected {hex} (from {origin}): the image is damaged \
         or the checksum belongs to another one"
    );
    Error::new(ErrorKind::Checksum, Stage::Verify, text)
}
