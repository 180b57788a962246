//! One installation that is killed again and again: a node goes through its
//! flows, and in each of them the conductor that works on it dies at one place.

use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use serde_json::Value;
use tokio::time::Instant;

use super::flows;
use super::flows::Flow;
use super::journal::Journal;
use super::journal::Row;
use super::judge;
use super::site::Site;
use crate::api::Api;
use crate::sim::Habits;
use crate::sim::Machine;
use crate::sim::Sim;
use crate::sim::log::Mark;

/// For a node to come to rest, with nobody to help it.
const PATIENCE: Duration = Duration::from_secs(240);
/// What took longer is told with its story: nothing in a flow should.
const LONG: Duration = Duration::from_secs(45);
/// Between two looks at the node.
const PAUSE: Duration = Duration::from_millis(100);
/// A dead conductor's nodes are taken over within that.
const TAKEN_OVER: Duration = Duration::from_secs(90);

/// What follows the death of a conductor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It is started again.
    Restart,
    /// Another one takes its nodes over; it is started again later.
    TakeOver,
}

/// One kill.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Case {
    /// In which flow.
    pub flow: Flow,
    /// After so many rows of the journal; 0: when the request was answered.
    pub rows: usize,
    /// So long after that.
    pub delay: Duration,
    /// How long after the row before the wanted one is looked for without a
    /// pause.
    pub close: Duration,
}

/// How a kill ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The kill.
    pub case: Case,
    /// The rows that were there when the conductor was dead; none when the flow
    /// had ended before.
    pub hit: Option<usize>,
    /// The last of them.
    pub boundary: String,
    /// The reason in the node, when it came to rest in a failed state.
    pub failed: Option<String>,
    /// What must not have been.
    pub faults: Vec<String>,
    /// From the kill to the node's rest.
    pub took: Duration,
    /// What the machine saw, when that took long.
    pub slow: Option<String>,
}

impl Outcome {
    /// Of a kill that did not come about.
    pub fn of_error(case: Case, error: &anyhow::Error) -> Self {
        Self {
            case,
            hit: None,
            boundary: "none".to_owned(),
            failed: None,
            faults: vec![format!("{error:#}")],
            took: Duration::ZERO,
            slow: None,
        }
    }
}

/// The node that goes through the flows.
#[derive(Debug)]
struct Subject {
    node: String,
    machine: Machine,
}

/// An installation with its machines.
#[derive(Debug)]
pub struct Worker {
    site: Site,
    sim: Sim,
    api: Api,
    journal: Journal,
    after: After,
    name: String,
    subject: Option<Subject>,
    made: usize,
}

impl Worker {
    /// Starts the installation.
    pub async fn start(mut site: Site, name: &str, after: After) -> Result<Self> {
        site.start().await?;
        let sim = Sim::start()?;
        sim.surround(&site.boots(), Some(site.ca()))?;
        Ok(Self {
            api: site.api()?,
            journal: Journal::open(&site.database).await?,
            site,
            sim,
            after,
            name: name.to_owned(),
            subject: None,
            made: 0,
        })
    }

    /// Ends the installation.
    pub async fn stop(mut self) {
        self.site.stop().await;
    }

    /// Runs a flow without a kill; gives its rows.
    pub async fn reference(&mut self, flow: Flow) -> Result<Vec<Row>> {
        let run = Box::pin(self.reference_of(flow));
        run.await
            .with_context(|| format!("{} without a kill", flow.as_str()))
    }

    async fn reference_of(&mut self, flow: Flow) -> Result<Vec<Row>> {
        let subject = self.bring(flow.from()).await?;
        let (since, mark) = (
            self.journal.last(&subject.node).await?,
            subject.machine.mark(),
        );
        flow.begin(&self.api, &subject.node).await?;
        let rested = self.rest(&subject, flow).await?;
        if let Some(error) = rested {
            bail!("it failed: {error}{}", self.story(&subject, mark));
        }
        let rows = self.journal.rows(&subject.node, since).await?;
        let faults = self.faults(&subject, flow, mark, &rows).await?;
        if !faults.is_empty() {
            bail!("{}{}", faults.join("; "), self.story(&subject, mark));
        }
        self.subject = Some(subject);
        Ok(rows)
    }

    /// Runs a flow with a kill.
    pub async fn run(&mut self, case: Case) -> Result<Outcome> {
        let flow = case.flow;
        let subject = self.bring(flow.from()).await?;
        let (since, mark) = (
            self.journal.last(&subject.node).await?,
            subject.machine.mark(),
        );
        let owner = self.api.node(&subject.node).await?;
        let owner = owner["conductor"].as_str().unwrap_or_default().to_owned();
        flow.begin(&self.api, &subject.node).await?;
        let reached = if case.rows == 0 {
            true
        } else {
            let (api, journal) = (&self.api, &mut self.journal);
            tokio::select! {
                reached = journal.reach(&subject.node, since, case.rows, case.close) => {
                    reached.map(|()| true)?
                }
                ended = ended(api, &subject.node, flow) => ended.map(|_| false)?,
                () = tokio::time::sleep(PATIENCE) => {
                    bail!("row {} did not come{}", case.rows, self.story(&subject, mark))
                }
            }
        };
        if !case.delay.is_zero() {
            tokio::time::sleep(case.delay).await;
        }
        self.site.conductor(&owner)?.kill().await;
        let killed = Instant::now();
        let rows = self.journal.rows(&subject.node, since).await?;
        let hit = reached.then_some(rows.len());
        let boundary = rows.last().map_or("accepted".to_owned(), Row::boundary);
        if self.after == After::Restart {
            self.site.conductor(&owner)?.start().await?;
        }
        let rested = self.rest(&subject, flow).await;
        let took = killed.elapsed();
        if self.after == After::TakeOver {
            self.site.conductor(&owner)?.start().await?;
        }
        let failed = match rested {
            Ok(failed) => failed,
            Err(error) => {
                return Ok(Outcome {
                    case,
                    hit,
                    boundary,
                    failed: None,
                    faults: vec![format!("{error:#}{}", self.story(&subject, mark))],
                    took,
                    slow: None,
                });
            }
        };
        let rows = self.journal.rows(&subject.node, since).await?;
        let mut faults = self.faults(&subject, flow, mark, &rows).await?;
        if failed.is_some() {
            faults.retain(|fault| !fault.starts_with(OTHER_REST));
            faults.extend(judge::unbegun(&rows));
        }
        if let Some(last) = faults.last_mut() {
            last.push_str(&self.story(&subject, mark));
        }
        let slow = (took > LONG).then(|| self.story(&subject, mark));
        if failed.is_none() && faults.is_empty() {
            self.subject = Some(subject);
        }
        Ok(Outcome {
            case,
            hit,
            boundary,
            failed,
            faults,
            took,
            slow,
        })
    }

    /// Has all processes run again, for the next case, after an error.
    pub async fn mend(&mut self) -> Result<()> {
        self.subject = None;
        self.site.start().await
    }

    /// A node that rests in `state`: the one of the flow before, or a new one.
    async fn bring(&mut self, state: &str) -> Result<Subject> {
        let subject = match self.subject.take() {
            Some(subject) => subject,
            None => self.make().await?,
        };
        loop {
            let shown = self.api.node(&subject.node).await?;
            let now = shown["provision_state"].as_str().unwrap_or_default();
            let Some((verb, to)) = flows::next(now, state)? else {
                return Ok(subject);
            };
            let mark = subject.machine.mark();
            let went = async {
                flows::go(&self.api, &subject.node, verb).await?;
                await_state(&self.api, &subject.node, to).await
            };
            if let Err(error) = went.await {
                let story = self.story(&subject, mark);
                bail!("on the way to {state}, {verb}: {error:#}{story}");
            }
        }
    }

    async fn make(&mut self) -> Result<Subject> {
        self.made += 1;
        let name = format!("{}-{}", self.name, self.made);
        let machine = self.sim.machine(&name, Habits::default());
        let info = self.sim.driver_info(&machine);
        let node = flows::enrol(&self.api, &name, info, machine.mac()).await?;
        Ok(Subject { node, machine })
    }

    /// Waits until the node rests at the end of a flow; gives the reason when
    /// that is a failure.
    async fn rest(&self, subject: &Subject, flow: Flow) -> Result<Option<String>> {
        let patience = match self.after {
            After::Restart => PATIENCE,
            After::TakeOver => PATIENCE + TAKEN_OVER,
        };
        let ended = tokio::time::timeout(patience, ended(&self.api, &subject.node, flow)).await;
        let Ok(ended) = ended else {
            let node = self.api.node(&subject.node).await?;
            bail!(
                "it did not come to rest within {} s: {} (reserved by {}), {}",
                patience.as_secs(),
                node["provision_state"],
                node["reservation"],
                node["driver_internal_info"]
            );
        };
        ended
    }

    async fn faults(
        &self,
        subject: &Subject,
        flow: Flow,
        mark: Mark,
        rows: &[Row],
    ) -> Result<Vec<String>> {
        let mut faults = judge::faults(&subject.machine.log_since(mark), rows);
        let node = self.api.node(&subject.node).await?;
        for key in [
            "target_provision_state",
            "target_power_state",
            "last_error",
            "fault",
        ] {
            if !node[key].is_null() {
                faults.push(format!("{OTHER_REST}{key} is {}", node[key]));
            }
        }
        if node["maintenance"] == true {
            faults.push(format!("{OTHER_REST}it is in maintenance"));
        }
        if subject.machine.is_on() != flow.ends_on() {
            let word = if flow.ends_on() { "off" } else { "on" };
            faults.push(format!("{OTHER_REST}the machine is {word}"));
        }
        Ok(faults)
    }

    fn story(&self, subject: &Subject, mark: Mark) -> String {
        let lines = subject.machine.log_since(mark).lines;
        format!(
            "\n  node {} in {}\n    {}",
            subject.node,
            self.name,
            lines.join("\n    ")
        )
    }
}

/// Begins faults of a node that rests otherwise than it should; a node that
/// failed does.
const OTHER_REST: &str = "at rest, ";

/// Waits until the node rests at the end of `flow` or in a failed state, which
/// it gives the reason of.
async fn ended(api: &Api, node: &str, flow: Flow) -> Result<Option<String>> {
    loop {
        // Nobody may answer while another conductor takes over.
        if let Ok(shown) = api.node(node).await {
            let state = shown["provision_state"].as_str().unwrap_or_default();
            let free = shown["reservation"].is_null();
            if free && state == flow.to() {
                return Ok(None);
            }
            if free && is_failure(state) {
                return Ok(Some(format!("{state}: {}", text(&shown["last_error"]))));
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn await_state(api: &Api, node: &str, state: &str) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let shown = api.node(node).await?;
        let now = shown["provision_state"].as_str().unwrap_or_default();
        if now == state && shown["reservation"].is_null() {
            return Ok(());
        }
        if Instant::now() > until || is_failure(now) {
            bail!("it is {now}: {}", text(&shown["last_error"]));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn is_failure(state: &str) -> bool {
    state.ends_with("failed") || state == "error"
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("no reason given")
}
