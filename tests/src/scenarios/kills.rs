//! Conductors that die at every boundary of the journal, and conductors that
//! die under hundreds of nodes; see [`crate::kill`].

use std::time::Duration;

use anyhow::Result;
use anyhow::ensure;
use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::Context;
use crate::kill;
use crate::kill::Plan;
use crate::kill::flows::Flow;
use crate::kill::site::Site;
use crate::kill::storm::Fleet;
use crate::kill::tour::Worker;
use crate::paths::Paths;
use crate::postgres::Postgres;
use crate::proxy::Proxy;
use crate::sim::Habits;
use crate::sim::Sim;

/// Installations side by side: most of a kill is waiting.
const SITES: usize = 6;
/// The same for samples, and for installations of three processes.
const FEW_SITES: usize = 3;
/// The same where a take-over waits for a lease to run out.
const SHARED_SITES: usize = 9;

/// Nodes of the storm.
const NODES: usize = 300;
/// How long each machine of the storm writes.
const WRITING: Duration = Duration::from_secs(30);
/// How long a conductor is stopped: past its lease, and past the time after
/// which it counts as dead.
const STOPPED: Duration = Duration::from_secs(75);
/// How long the database cannot be reached.
const CUT: Duration = Duration::from_secs(5);

/// `wrought serve` killed at some boundaries of a deploy and a tear-down.
pub(super) async fn sample(context: &mut Context) -> Result<()> {
    let plan = Plan {
        flows: vec![Flow::Deploy, Flow::Delete],
        every: 4,
        parts: vec![0.0],
        complete: false,
    };
    let (paths, work) = place()?;
    let workers = kill::serving(&paths.binary("wrought")?, work.path(), FEW_SITES).await?;
    judged(context, workers, &plan).await
}

/// `wrought serve` killed at, between and before all boundaries of all flows.
pub(super) async fn matrix(context: &mut Context) -> Result<()> {
    let plan = Plan {
        flows: Flow::ALL.to_vec(),
        every: 1,
        parts: vec![0.0, 0.5, 0.95],
        complete: true,
    };
    let (paths, work) = place()?;
    let workers = kill::serving(&paths.binary("wrought")?, work.path(), SITES).await?;
    judged(context, workers, &plan).await
}

/// One of two conductors killed at every other boundary of all flows; the other
/// one takes over, when the dead one's lease has run out.
pub(super) async fn take_over(context: &mut Context) -> Result<()> {
    let plan = Plan {
        flows: Flow::ALL.to_vec(),
        every: 2,
        parts: vec![0.0],
        complete: false,
    };
    let (paths, work) = place()?;
    let postgres = Postgres::start(false).await?;
    let binary = paths.binary("wrought")?;
    let workers = kill::sharing(&binary, work.path(), &postgres, SHARED_SITES).await?;
    let done = judged(context, workers, &plan).await;
    postgres.stop().await;
    done
}

fn place() -> Result<(Paths, TempDir)> {
    let paths = Paths::find()?;
    std::fs::create_dir_all(&paths.runs)?;
    let work = tempfile::Builder::new()
        .prefix("kills-")
        .tempdir_in(&paths.runs)?;
    Ok((paths, work))
}

async fn judged(context: &Context, workers: Vec<Worker>, plan: &Plan) -> Result<()> {
    let account = context.account.clone();
    let report = kill::run(workers, plan, &|text: &str| account.say(text)).await?;
    for line in report.lines() {
        account.plain(&line);
    }
    kill::judge(&report, plan)
}

/// Three conductors deploy 300 nodes; one is killed, one is stopped past its
/// lease and then goes on, the way to the database is cut, the database is
/// started anew.
pub(super) async fn storm(context: &mut Context) -> Result<()> {
    let (paths, work) = place()?;
    let mut postgres = Postgres::start(false).await?;
    let direct = postgres.database("storm").await?;
    let proxy = Proxy::start(&postgres.socket_file()).await?;
    let by_proxy = Postgres::url_by("storm", proxy.address());
    let mut site = Site::split(&paths.binary("wrought")?, work.path(), &by_proxy, 3)?;
    site.start().await?;
    let api = site.api()?;
    let sim = Sim::start()?;
    sim.surround(&site.boots(), Some(site.ca()))?;
    let habits = Habits {
        boot: Duration::from_secs(2),
        heartbeat: Duration::from_secs(5),
        takes: [("deploy.write_image".to_owned(), WRITING)].into(),
        ..Habits::default()
    };
    let account = context.account.clone();
    let mut fleet = Fleet::muster(&sim, &api, NODES, &habits).await?;
    account.say(&format!("{NODES} nodes are available"));
    fleet.deploy(&direct).await?;
    let census = fleet
        .until("the first active nodes", |census| {
            census.of("active") >= NODES / 30
        })
        .await?;
    account.say(&format!("one is killed, one is stopped: {}", census.line()));
    site.conductor("conductor-0")?.kill().await;
    site.conductor("conductor-1")?.signal(Signal::SIGSTOP);
    let stopped = tokio::time::Instant::now();

    account.say(&format!("the database cannot be reached for {CUT:?}"));
    proxy.cut();
    tokio::time::sleep(CUT).await;
    proxy.mend();
    tokio::time::sleep_until(stopped + STOPPED / 2).await;
    account.say("the database is started anew");
    postgres.restart().await?;
    tokio::time::sleep_until(stopped + STOPPED).await;
    let census = fleet.census().await?;
    account.say(&format!("the stopped one goes on: {}", census.line()));
    ensure!(
        census.of("active") < NODES,
        "all was done before the stopped conductor went on"
    );
    site.conductor("conductor-1")?.signal(Signal::SIGCONT);
    site.conductor("conductor-0")?.start().await?;
    let census = fleet
        .until("the end of all deploys", |census| {
            census.of("active") == NODES && census.reserved == 0
        })
        .await?;
    let faults = fleet.faults(&direct).await?;
    account.plain(&format!("{}: {}", census.line(), fleet.figures()));
    ensure!(
        faults.is_empty(),
        "{} nodes with faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
    site.stop().await;
    postgres.stop().await;
    Ok(())
}
