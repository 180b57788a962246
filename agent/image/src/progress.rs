//! What a running write tells its caller, and how the rate is measured.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crate::error::Stage;

/// How far a write is. The fields are those of the wire's progress object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// Bytes read from the source so far.
    pub bytes_in: u64,
    /// Bytes that the source will give, when known.
    pub bytes_total: Option<u64>,
    /// Bytes put in place on the target so far, zeroes included.
    pub bytes_out: u64,
    /// Bytes read per second, over the last few seconds.
    pub rate: u64,
    /// 0 to 100, when the total is known.
    pub percent: Option<u8>,
    /// Seconds until the source will have been read at this rate, when both
    /// are known.
    pub eta: Option<u64>,
}

/// Receives progress, at most a few times a second, from the thread that
/// called [`write`](crate::write).
#[derive(Clone)]
pub struct ProgressFn(Arc<dyn Fn(&Progress) + Send + Sync>);

impl ProgressFn {
    /// Wraps a function; it must return quickly.
    pub fn new(function: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    /// Hands one report on.
    pub fn call(&self, progress: &Progress) {
        (self.0)(progress);
    }
}

impl fmt::Debug for ProgressFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressFn")
    }
}

/// Time between two reports.
const INTERVAL: Duration = Duration::from_millis(400);
/// Span over which the rate is taken.
const WINDOW: Duration = Duration::from_secs(4);

/// Turns counters into [`Progress`] reports at a bounded pace.
#[derive(Debug)]
pub(crate) struct Meter {
    function: Option<ProgressFn>,
    samples: VecDeque<(Instant, u64)>,
    last: Option<(Instant, Stage)>,
}

impl Meter {
    pub(crate) fn new(function: Option<ProgressFn>) -> Self {
        Self {
            function,
            samples: VecDeque::new(),
            last: None,
        }
    }

    /// Reports when the stage changed or the last report is old enough.
    pub(crate) fn tick(&mut self, stage: Stage, bytes_in: u64, total: Option<u64>, bytes_out: u64) {
        let Some(function) = &self.function else {
            return;
        };
        let now = Instant::now();
        if let Some((at, last_stage)) = self.last
            && last_stage == stage
            && now.duration_since(at) < INTERVAL
        {
            return;
        }
        self.last = Some((now, stage));
        self.samples.push_back((now, bytes_in));
        while self.samples.len() > 2
            && self
                .samples
                .front()
                .is_some_and(|(at, _)| now.duration_since(*at) > WINDOW)
        {
            self.samples.pop_front();
        }
        let rate = self.samples.front().map_or(0, |(at, first)| {
            let millis = u64::try_from(now.duration_since(*at).as_millis()).unwrap_or(u64::MAX);
            bytes_in
                .saturating_sub(*first)
                .saturating_mul(1000)
                .checked_div(millis)
                .unwrap_or(0)
        });
        let percent = total.filter(|total| *total > 0).map(|total| {
            let percent = u128::from(bytes_in.min(total)) * 100 / u128::from(total);
            u8::try_from(percent).unwrap_or(100)
        });
        let eta = total
            .map(|total| total.saturating_sub(bytes_in))
            .and_then(|left| left.checked_div(rate));
        function.call(&Progress {
            stage,
            bytes_in,
            bytes_total: total,
            bytes_out,
            rate,
            percent,
            eta,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn reports_percent_and_every_stage_change() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        let mut meter = Meter::new(Some(ProgressFn::new(move |p| {
            sink.lock().unwrap().push(*p)
        })));
        meter.tick(Stage::Write, 0, Some(200), 0);
        meter.tick(Stage::Write, 50, Some(200), 10);
        meter.tick(Stage::Flush, 200, Some(200), 400);
        let seen = seen.lock().unwrap();
        assert_eq!(
            seen.len(),
            2,
            "the second report came too soon to be passed on"
        );
        assert_eq!(seen[1].percent, Some(100));
        assert_eq!(seen[1].bytes_out, 400);
        assert_eq!(seen[0].eta, None, "nothing is known of the rate yet");
    }
}
