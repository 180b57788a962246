//! Figures about the periodic tasks and the workers, in Prometheus' text form.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::admission::Lane;
use crate::service::Service;

/// The figures of all tasks.
#[derive(Debug, Default)]
pub(crate) struct Meters(Mutex<BTreeMap<&'static str, Arc<Meter>>>);

/// The figures of one task.
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<Figures>);

/// What is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Figures {
    /// Rounds that have ended.
    pub(crate) runs: u64,
    /// Those of them that ended with an error.
    pub(crate) failures: u64,
    /// Nodes looked at in all rounds.
    pub(crate) nodes: u64,
    /// How long the last round took.
    pub(crate) last: Duration,
    /// When it ended.
    pub(crate) ended: Option<Timestamp>,
    /// Rounds that run now: 0 or 1.
    pub(crate) running: u64,
}

/// A round that runs. One that is dropped was cut off: it has failed.
#[derive(Debug)]
pub(crate) struct Running {
    meter: Arc<Meter>,
    since: Instant,
    nodes: u64,
    ok: bool,
}

impl Meters {
    /// Those of one task.
    pub(crate) fn of(&self, task: &'static str) -> Arc<Meter> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(task).or_default())
    }

    fn read(&self) -> Vec<(&'static str, Figures)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .map(|(task, meter)| (*task, meter.read()))
            .collect()
    }
}

impl Meter {
    fn change(&self, change: impl FnOnce(&mut Figures)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The figures now.
    pub(crate) fn read(&self) -> Figures {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A round begins.
    pub(crate) fn begin(self: &Arc<Self>) -> Running {
        self.change(|figures| figures.running += 1);
        Running {
            meter: Arc::clone(self),
            since: Instant::now(),
            nodes: 0,
            ok: false,
        }
    }
}

impl Running {
    /// It ended well.
    pub(crate) fn done(mut self, nodes: u64) {
        self.nodes = nodes;
        self.ok = true;
    }

    /// It ended with an error.
    pub(crate) fn failed(self) {
        drop(self);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (took, nodes, ok) = (self.since.elapsed(), self.nodes, self.ok);
        self.meter.change(|figures| {
            figures.running = figures.running.saturating_sub(1);
            figures.runs += 1;
            figures.failures += u64::from(!ok);
            figures.nodes += nodes;
            figures.last = took;
            figures.ended = Some(Timestamp::now());
        });
    }
}

/// Writes one family of figures.
fn family<'a>(
    out: &mut String,
    (name, kind, help): (&str, &str, &str),
    values: impl Iterator<Item = (&'static str, &'a str, f64)>,
) {
    // Writing to a String does not fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (label, value, figure) in values {
        let _ = match label {
            "" => writeln!(out, "{name} {figure}"),
            label => writeln!(out, "{name}{{{label}=\"{value}\"}} {figure}"),
        };
    }
}

/// Everything, as `/metrics` answers.
pub(crate) async fn render(svc: &Service) -> String {
    let mut out = String::new();
    let tasks = svc.meters.read();
    let of = |figure: fn(&Figures) -> f64| {
        let tasks = tasks.iter();
        tasks.map(move |(task, figures)| ("task", *task, figure(figures)))
    };
    let number = |count: u64| count as f64;
    let name = |end: &str| format!("wrought_periodic_task_{end}");
    let about = [
        (
            "runs_total",
            "counter",
            "Rounds of a periodic task that have ended.",
        ),
        (
            "failures_total",
            "counter",
            "Rounds that ended with an error.",
        ),
        ("nodes_total", "counter", "Nodes looked at."),
        ("running", "gauge", "Whether a round runs now."),
        (
            "last_duration_seconds",
            "gauge",
            "How long the last round took.",
        ),
        (
            "last_run_timestamp_seconds",
            "gauge",
            "When the last round ended.",
        ),
    ];
    let figures: [fn(&Figures) -> f64; 6] = [
        |f| f.runs as f64,
        |f| f.failures as f64,
        |f| f.nodes as f64,
        |f| f.running as f64,
        |f| f.last.as_secs_f64(),
        |f| f.ended.map_or(0.0, |at| at.as_second() as f64),
    ];
    for ((end, kind, help), figure) in about.into_iter().zip(figures) {
        family(&mut out, (name(end).as_str(), kind, help), of(figure));
    }
    let (size, busy) = svc.workers.count();
    let one = |count: usize| std::iter::once(("", "", number(super::count(count))));
    let about = (
        "wrought_workers",
        "gauge",
        "Operations that may run at the same time.",
    );
    family(&mut out, about, one(size));
    let about = ("wrought_workers_busy", "gauge", "Operations that run.");
    family(&mut out, about, one(busy));
    let about = (
        "wrought_fenced_writes_total",
        "counter",
        "Writes that were refused because their lock had passed to another holder.",
    );
    let refused = svc.fenced.get();
    family(&mut out, about, std::iter::once(("", "", number(refused))));
    let mut queued = Vec::new();
    for lane in Lane::ALL {
        // A database that does not answer is told by the tasks.
        if let Ok(length) = svc.store.queue_length(lane.name()).await {
            queued.push(("operation", lane.name(), number(length)));
        }
    }
    let about = (
        "wrought_queued_nodes",
        "gauge",
        "Nodes that wait for a place among the operations of their kind.",
    );
    family(&mut out, about, queued.into_iter());
    out
}
