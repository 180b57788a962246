//! One write from claim to report.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::checksum;
use crate::control::Control;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::finish;
use crate::pipeline;
use crate::progress::Meter;
use crate::redact;
use crate::report::WriteReport;
use crate::request::WriteRequest;
use crate::sink::Sink;
use crate::source;
use crate::source::Plan;
use crate::target::Target;

/// See [`crate::write`].
pub(crate) fn write(request: &WriteRequest) -> Result<WriteReport, Error> {
    request.check()?;
    let target = Target::claim(&request.target)?.with_layout(request.layout);
    if let Err(error) = target.check_sources(&request.sources) {
        target.undo();
        return Err(error);
    }
    write_to(request, &target)
}

/// Writes to a claimed target. Where the bytes turn out to be wrong, the first
/// source is left out and all is done again with the others.
fn write_to(request: &WriteRequest, target: &Target) -> Result<WriteReport, Error> {
    let mut request = request.clone();
    let mut wrong: Vec<Error> = Vec::new();
    loop {
        let guard = Guard {
            target,
            extent: None,
            armed: true,
        };
        let error = match guard.run(&request) {
            Ok(report) => return Ok(report),
            Err(error) => error,
        };
        let bytes_are_wrong = error.kind() == ErrorKind::Checksum && error.stage() == Stage::Verify;
        if !bytes_are_wrong || request.sources.len() == 1 {
            let disk = error.disk();
            wrong.push(error);
            return Err(source::none_left(wrong).with_disk(disk));
        }
        let left_out = request.sources.remove(0);
        tracing::warn!(
            source = redact::url(&left_out),
            err = error.chain(),
            "wrong bytes, going on with the next source"
        );
        wrong.push(error);
    }
}

/// Zeroes the ends of the disk unless the write succeeds, also when it
/// panics.
struct Guard<'a> {
    target: &'a Target,
    extent: Option<u64>,
    armed: bool,
}

impl Guard<'_> {
    fn run(mut self, request: &WriteRequest) -> Result<WriteReport, Error> {
        let start = Instant::now();
        let control = Arc::new(Control::new(request.cancel.clone()));
        let sink = Sink::new(self.target, &control, request.verify_after_write);
        let result = steps(request, &control, &sink, start);
        self.extent = sink.extent();
        self.armed = false;
        result.map_err(|error| {
            if !control.touched() && !request.zero_on_refusal {
                self.target.undo();
                return error;
            }
            let disk = self.target.poison(self.extent.unwrap_or(0));
            error.with_disk(disk)
        })
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.target.poison(self.extent.unwrap_or(0));
        }
    }
}

fn steps(
    request: &WriteRequest,
    control: &Arc<Control>,
    sink: &Sink<'_>,
    start: Instant,
) -> Result<WriteReport, Error> {
    let mut meter = Meter::new(request.progress.clone());
    meter.tick(Stage::Check, 0, None, 0);
    // A cancel is kept where the threads look for it.
    let or_cancelled = |error| {
        if control.running().is_err() {
            control.take_failure()
        } else {
            error
        }
    };
    let plan =
        Plan::new(&request.sources, &request.http, request.retry, control).map_err(or_cancelled)?;
    let expected = checksum::resolve(request, plan.implied(), |url| {
        let http = source::options_beside(url, &request.sources, &request.http);
        let mut sums = source::open(&[url.to_owned()], &http, request.retry, control)?;
        source::read_all(&mut *sums, checksum::SUMS_LIMIT)
    })
    .map_err(or_cancelled)?;
    let image = plan.open().map_err(or_cancelled)?;
    let streamed = pipeline::stream(request, image, &expected, sink, control, &mut meter)?;
    let extent = sink.extent().unwrap_or(0);
    let total = Some(streamed.bytes_in);
    meter.tick(Stage::Flush, streamed.bytes_in, total, extent);
    sink.target.flush()?;
    let read_back =
        sink.read_back(|read| meter.tick(Stage::ReadBack, streamed.bytes_in, total, read))?;
    meter.tick(Stage::Finish, streamed.bytes_in, total, extent);
    control.running().map_err(|_| control.take_failure())?;
    let (table, filesystem) = finish::finish(sink)?;
    meter.tick(Stage::Finish, streamed.bytes_in, total, extent);
    Ok(WriteReport {
        format: streamed.format,
        container: streamed.container,
        source: streamed.source,
        bytes_in: streamed.bytes_in,
        bytes_out: extent,
        bytes_zeroed: control.bytes_zeroed.load(Ordering::Relaxed),
        bytes_refetched: control.bytes_again.load(Ordering::Relaxed),
        algorithm: expected.algorithm,
        digest: streamed.digest,
        checksum_source: expected.origin,
        read_back,
        disk_bytes: sink.target.size(),
        sector_size: sink.target.sector_size(),
        table,
        filesystem,
        elapsed: start.elapsed(),
        connections: control.connections.load(Ordering::Relaxed),
    })
}

#[cfg(test)]
mod tests;
