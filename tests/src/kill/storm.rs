//! Hundreds of nodes in flight while their conductors, and the database, go
//! through everything at once.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use futures_util::StreamExt;
use futures_util::stream;
use serde_json::Value;
use serde_json::json;
use tokio::time::Instant;

use super::flows;
use super::flows::Flow;
use super::journal::Journal;
use super::judge;
use crate::api::Api;
use crate::sim::Habits;
use crate::sim::Machine;
use crate::sim::Sim;
use crate::sim::log::Mark;

/// Requests on their way at the same time.
const AT_ONCE: usize = 8;
/// For all nodes to come from one state to the next, when nothing happens to
/// the conductors.
const PATIENCE: Duration = Duration::from_secs(600);
/// Between two looks at all nodes.
const PAUSE: Duration = Duration::from_millis(500);

/// A node of the fleet.
#[derive(Debug)]
pub struct Member {
    /// Its UUID.
    pub node: String,
    /// Its machine.
    pub machine: Machine,
    mark: Mark,
    since: i64,
}

/// Nodes by their states, and those that are locked or have failed.
#[derive(Debug, Default, Clone)]
pub struct Census {
    /// Nodes in each state.
    pub states: BTreeMap<String, usize>,
    /// Nodes that somebody holds.
    pub reserved: usize,
    /// What failed ones say.
    pub failed: Vec<String>,
}

impl Census {
    /// Nodes in a state.
    pub fn of(&self, state: &str) -> usize {
        self.states.get(state).copied().unwrap_or(0)
    }

    /// In one line.
    pub fn line(&self) -> String {
        let states = self.states.iter();
        let states: Vec<String> = states.map(|(state, n)| format!("{n} {state}")).collect();
        format!("{}; {} locked", states.join(", "), self.reserved)
    }
}

/// Nodes with their machines.
#[derive(Debug)]
pub struct Fleet {
    members: Vec<Member>,
    api: Api,
}

impl Fleet {
    /// Makes `count` nodes and takes them to `available`.
    pub async fn muster(sim: &Sim, api: &Api, count: usize, habits: &Habits) -> Result<Self> {
        let made = stream::iter(0..count).map(|number| {
            let (api, habits) = (api.clone(), habits.clone());
            async move {
                let machine = sim.machine(&format!("m{number}"), habits);
                let info = sim.driver_info(&machine);
                let node = flows::enrol(&api, machine.name(), info, machine.mac()).await?;
                let mark = machine.mark();
                let since = 0;
                Ok::<_, anyhow::Error>(Member {
                    node,
                    machine,
                    mark,
                    since,
                })
            }
        });
        let made: Vec<Result<Member>> = made.buffer_unordered(AT_ONCE).collect().await;
        let fleet = Self {
            members: made.into_iter().collect::<Result<_>>()?,
            api: api.clone(),
        };
        for (verb, state) in [("manage", "manageable"), ("provide", "available")] {
            fleet.ask(verb).await?;
            fleet
                .until(state, |census| census.of(state) == count)
                .await?;
        }
        Ok(fleet)
    }

    /// Its nodes.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Asks all nodes for a verb; from `active` on their logs count.
    async fn ask(&self, verb: &str) -> Result<()> {
        let asked = stream::iter(&self.members)
            .map(|member| insist(move || flows::go(&self.api, &member.node, verb)));
        let asked: Vec<Result<()>> = asked.buffer_unordered(AT_ONCE).collect().await;
        asked.into_iter().collect()
    }

    /// Asks for a deploy of all nodes.
    pub async fn deploy(&mut self, database: &str) -> Result<()> {
        let mut journal = Journal::open(database).await?;
        for member in &mut self.members {
            member.mark = member.machine.mark();
            member.since = journal.last(&member.node).await?;
        }
        let (api, members) = (&self.api, &self.members);
        let asked = stream::iter(members)
            .map(|member| insist(move || Flow::Deploy.begin(api, &member.node)));
        let asked: Vec<Result<()>> = asked.buffer_unordered(AT_ONCE).collect().await;
        asked.into_iter().collect()
    }

    /// Counts the nodes.
    pub async fn census(&self) -> Result<Census> {
        let path = "/v1/nodes?fields=uuid,provision_state,reservation,last_error&limit=1000";
        let list = self.api.get(path).await?;
        let mut census = Census::default();
        for node in list["nodes"].as_array().into_iter().flatten() {
            let state = node["provision_state"].as_str().unwrap_or_default();
            *census.states.entry(state.to_owned()).or_default() += 1;
            census.reserved += usize::from(!node["reservation"].is_null());
            if state.ends_with("failed") || state == "error" {
                let (uuid, error) = (&node["uuid"], &node["last_error"]);
                census.failed.push(format!("{uuid} {state}: {error}"));
            }
        }
        Ok(census)
    }

    /// Counts again and again until `come` says so; fails as soon as a node
    /// has failed.
    pub async fn until(&self, what: &str, come: impl Fn(&Census) -> bool) -> Result<Census> {
        let until = Instant::now() + PATIENCE;
        let mut last = Census::default();
        loop {
            // Nobody may answer just now.
            if let Ok(census) = self.census().await {
                if come(&census) {
                    return Ok(census);
                }
                ensure!(census.failed.is_empty(), "{}", census.failed.join("\n"));
                last = census;
            }
            if Instant::now() > until {
                bail!("{what} did not come: {}", last.line());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// What must not have been in any node's deploy.
    pub async fn faults(&self, database: &str) -> Result<Vec<String>> {
        let mut journal = Journal::open(database).await?;
        let mut faults = Vec::new();
        for member in &self.members {
            let log = member.machine.log_since(member.mark);
            let rows = journal.rows(&member.node, member.since).await?;
            let mut found = judge::faults(&log, &rows);
            if !member.machine.is_on() {
                found.push("the machine is off".to_owned());
            }
            if !found.is_empty() {
                faults.push(format!(
                    "{} {}: {}\n    {}",
                    member.machine.name(),
                    member.node,
                    found.join("; "),
                    log.lines.join("\n    ")
                ));
            }
        }
        Ok(faults)
    }

    /// Commands that were refused for their epoch, and lives of agents.
    pub fn figures(&self) -> Value {
        let (mut old, mut lives, mut orders) = (0, 0, 0);
        for member in &self.members {
            let log = member.machine.log_since(member.mark);
            orders += log.orders.len();
            let refused = log.orders.iter();
            old += refused
                .filter(|order| order.verdict == crate::sim::log::Verdict::OldEpoch)
                .count();
            lives += log.switches.iter().filter(|switch| switch.on).count();
        }
        json!({"commands": orders, "refused for their epoch": old, "starts of machines": lives})
    }
}

/// Asks again while the node is locked, or nobody has time or answers.
async fn insist<F: Future<Output = Result<()>>>(ask: impl Fn() -> F) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() > until => return Err(error).context("asked long enough"),
            Err(error) => tracing::debug!("asked again: {error:#}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
