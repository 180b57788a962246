//! The kill matrix: conductors that die, by SIGKILL, at every boundary of the
//! journal, and what becomes of their nodes.
//!
//! A [`tour::Worker`] has an installation of real processes ([`site`]) and
//! simulated machines ([`crate::sim`]). It watches the journal from outside
//! ([`journal`]): as soon as the wanted row is there, or a part of the usual
//! time to the next row later, the conductor dies. It is started again, or
//! another one takes over; the node must get to the end of its [`flows::Flow`]
//! by itself, and the machine's own log must agree with the journal
//! ([`judge`]).

pub mod flows;
pub mod journal;
pub mod judge;
pub mod report;
pub mod site;
pub mod storm;
pub mod tour;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use tokio::task::JoinSet;

use flows::Flow;
use journal::Row;
use report::Report;
use tour::Case;
use tour::Outcome;
use tour::Worker;

use crate::postgres::Postgres;

/// How often a boundary that the kills slipped past is tried again.
const TRIES: usize = 8;

/// How long after a row the next one is looked for without a pause.
const CLOSE: Duration = Duration::from_millis(150);
/// The same for a boundary that was missed: rows that follow at once are met
/// only by who never looks away.
const CLOSER: Duration = Duration::from_secs(10);

/// What is killed where.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The flows, in an order in which a node can go through them.
    pub flows: Vec<Flow>,
    /// Every so many boundaries.
    pub every: usize,
    /// Parts of the usual time to the next row after which the conductor dies.
    pub parts: Vec<f64>,
    /// Whether each boundary must have been hit.
    pub complete: bool,
}

/// Installations that wait for kills.
type Queue = Arc<Mutex<VecDeque<Vec<Case>>>>;

/// Runs the kills on these installations, which it ends; gives the report.
pub async fn run(
    mut workers: Vec<Worker>,
    plan: &Plan,
    say: &(impl Fn(&str) + Sync),
) -> Result<Report> {
    let first = workers.first_mut().context("no installation")?;
    let mut references = Vec::new();
    for flow in &plan.flows {
        let rows = first.reference(*flow).await?;
        let names: Vec<String> = rows.iter().map(Row::boundary).collect();
        say(&format!("{}: {}", flow.as_str(), names.join(", ")));
        references.push((*flow, rows));
    }
    let mut report = Report::new(&references);
    let mut tours: VecDeque<Vec<Case>> = tours(&references, plan).into();
    for round in 0..TRIES {
        if tours.is_empty() {
            break;
        }
        let cases: usize = tours.iter().map(Vec::len).sum();
        say(&format!("round {}: {cases} kills", round + 1));
        workers = kill(workers, std::mem::take(&mut tours), &mut report, say).await?;
        if plan.complete {
            tours = again(&references, &report).into();
        }
    }
    for worker in workers {
        worker.stop().await;
    }
    Ok(report)
}

/// Has the workers go through the tours; gives them back.
async fn kill(
    workers: Vec<Worker>,
    tours: VecDeque<Vec<Case>>,
    report: &mut Report,
    say: &(impl Fn(&str) + Sync),
) -> Result<Vec<Worker>> {
    let queue: Queue = Arc::new(Mutex::new(tours));
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let mut running = JoinSet::new();
    for mut worker in workers {
        let (queue, tell) = (Arc::clone(&queue), tell.clone());
        running.spawn(async move {
            loop {
                let next = queue
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .pop_front();
                let Some(cases) = next else {
                    return Ok::<_, anyhow::Error>(worker);
                };
                for case in cases {
                    let outcome = match worker.run(case).await {
                        Ok(outcome) => outcome,
                        Err(error) => {
                            worker.mend().await?;
                            Outcome::of_error(case, &error)
                        }
                    };
                    // The one who listens does so to the end.
                    tell.send(outcome).ok();
                }
            }
        });
    }
    drop(tell);
    let (mut kills, mut faults) = (0, 0);
    while let Some(outcome) = told.recv().await {
        kills += 1;
        if !outcome.faults.is_empty() || outcome.failed.is_some() {
            faults += 1;
            let what = outcome.failed.iter().chain(&outcome.faults);
            let what: Vec<&str> = what.map(String::as_str).collect();
            say(&format!(
                "{} at {}: {}",
                outcome.case.flow.as_str(),
                outcome.boundary,
                what.join("; ")
            ));
        }
        if kills % 25 == 0 {
            say(&format!("{kills} kills, {faults} of them told above"));
        }
        report.add(outcome);
    }
    let mut workers = Vec::new();
    while let Some(worker) = running.join_next().await {
        workers.push(worker??);
    }
    Ok(workers)
}

/// One kill per flow and tour, so that a node goes from flow to flow.
fn tours(references: &[(Flow, Vec<Row>)], plan: &Plan) -> Vec<Vec<Case>> {
    let most = references.iter().map(|(_, rows)| rows.len()).max();
    let mut tours = Vec::new();
    for part in &plan.parts {
        for count in (0..=most.unwrap_or(0)).step_by(plan.every.max(1)) {
            let long = references.iter().filter(|(_, rows)| count <= rows.len());
            let cases = long.map(|(flow, rows)| Case {
                flow: *flow,
                rows: count,
                delay: gap(rows, count).mul_f64(*part),
                close: CLOSE,
            });
            tours.push(cases.collect());
        }
    }
    tours
}

/// The boundaries that were missed, each by itself.
fn again(references: &[(Flow, Vec<Row>)], report: &Report) -> Vec<Vec<Case>> {
    let mut tours = Vec::new();
    for (flow, _) in references {
        let missed = report.missed_of(flow.as_str()).into_iter();
        tours.extend(missed.map(|rows| {
            vec![Case {
                flow: *flow,
                rows,
                delay: Duration::ZERO,
                close: CLOSER,
            }]
        }));
    }
    tours
}

/// From the `count`th row to the next one, in the run without a kill.
fn gap(rows: &[Row], count: usize) -> Duration {
    let at = count.checked_sub(1).and_then(|at| rows.get(at));
    let (Some(from), Some(to)) = (at, rows.get(count)) else {
        return Duration::ZERO;
    };
    Duration::try_from(to.at.duration_since(from.at)).unwrap_or_default()
}

/// Installations for `count` workers that are restarted after each kill.
pub async fn serving(binary: &Path, work: &Path, count: usize) -> Result<Vec<Worker>> {
    let mut workers = Vec::new();
    for number in 0..count {
        let name = format!("site{number}");
        let folder = work.join(&name);
        std::fs::create_dir_all(&folder)?;
        let site = site::Site::serve(binary, &folder)?;
        workers.push(Worker::start(site, &name, tour::After::Restart).await?);
    }
    Ok(workers)
}

/// The same, each with two conductors on a database of its own, of which one
/// takes over what the other leaves.
pub async fn sharing(
    binary: &Path,
    work: &Path,
    postgres: &Postgres,
    count: usize,
) -> Result<Vec<Worker>> {
    let mut workers = Vec::new();
    for number in 0..count {
        let name = format!("site{number}");
        let folder = work.join(&name);
        std::fs::create_dir_all(&folder)?;
        let database = postgres.database(&name).await?;
        let site = site::Site::split(binary, &folder, &database, 2)?;
        workers.push(Worker::start(site, &name, tour::After::TakeOver).await?);
    }
    Ok(workers)
}

/// Fails with all that must not have been.
pub fn judge(report: &Report, plan: &Plan) -> Result<()> {
    let faults = report.faults();
    ensure!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
    let missed = report.missed();
    ensure!(
        !plan.complete || missed.is_empty(),
        "boundaries never hit: {}",
        missed.join(", ")
    );
    Ok(())
}
