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
use crate::kill::journal::Journal;
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
const WRITING: Duration = Duration::from_secs(120);
/// Locks that the conductor that is stopped holds at that moment, at least.
const HELD: usize = 5;
/// For that moment to come, and for the words of one that goes on.
const MOMENT: Duration = Duration::from_secs(300);
/// How long a conductor is stopped: past its lease, and past the time after
/// which it counts as dead.
const STOPPED: Duration = Duration::from_secs(45);
/// What a conductor says when it writes under a lock that it has lost.
const REFUSED: &str = "refused: ";
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

/// One of two conductors killed at every boundary of all flows; the other one
/// takes over, when the dead one's lease has run out.
pub(super) async fn take_over(context: &mut Context) -> Result<()> {
    let plan = Plan {
        flows: Flow::ALL.to_vec(),
        every: 1,
        parts: vec![0.0],
        complete: true,
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
/// leases and then goes on, the way to the database is cut, the database is
/// started anew. The one that goes on tries to, and is refused.
pub(super) async fn storm(context: &mut Context) -> Result<()> {
    let (paths, work) = place()?;
    let mut postgres = Postgres::start(false).await?;
    let direct = postgres.database("storm").await?;
    let proxy = Proxy::start(&postgres.socket_file()).await?;
    let by_proxy = Postgres::url_by("storm", proxy.address());
    let mut site = Site::split(&paths.binary("wrought")?, work.path(), &by_proxy, 3)?;
    // All at the same time.
    site.configure("max_concurrent_deploy = 0\n")?;
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
    account.say(&format!("{NODES} deploys are asked for"));
    let mut locks = Journal::open(&direct).await?;
    let until = tokio::time::Instant::now() + MOMENT;
    while locks.held_by("conductor-1").await?.len() < HELD {
        ensure!(
            tokio::time::Instant::now() < until,
            "it never held {HELD} locks at a time"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    site.conductor("conductor-1")?.signal(Signal::SIGSTOP);
    let stopped = tokio::time::Instant::now();
    site.conductor("conductor-0")?.kill().await;
    let held = locks.held_by("conductor-1").await?;
    let census = fleet.census().await?;
    account.say(&format!(
        "one is stopped, with {} locks, one is killed: {}",
        held.len(),
        census.line()
    ));
    let flying = census.of("deploying") + census.of("wait call-back");
    ensure!(
        flying >= NODES * 9 / 10 && !held.is_empty(),
        "too few nodes are in flight"
    );

    account.say(&format!("the database cannot be reached for {CUT:?}"));
    proxy.cut();
    tokio::time::sleep(CUT).await;
    proxy.mend();
    tokio::time::sleep_until(stopped + STOPPED / 2).await;
    account.say("the database is started anew");
    postgres.restart().await?;
    tokio::time::sleep_until(stopped + STOPPED).await;
    let mut passed = 0;
    // The restart has cut this connection as well.
    let mut locks = Journal::open(&direct).await?;
    for (node, epoch) in &held {
        passed += usize::from(locks.epoch(node).await? > *epoch);
    }
    let census = fleet.census().await?;
    account.say(&format!(
        "the stopped one goes on; {passed} of its locks have passed to others: {}",
        census.line()
    ));
    ensure!(
        census.of("active") < NODES,
        "all was done before the stopped conductor went on"
    );
    ensure!(passed > 0, "nobody has taken any of its nodes over");
    let waking = site.conductor("conductor-1")?;
    let before = waking.says(REFUSED);
    waking.signal(Signal::SIGCONT);
    let until = tokio::time::Instant::now() + MOMENT;
    while waking.says(REFUSED) == before {
        ensure!(
            tokio::time::Instant::now() < until,
            "it never tried to write under a lock that it had lost"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    site.conductor("conductor-0")?.start().await?;
    let census = fleet
        .until("the end of all deploys", |census| {
            census.of("active") == NODES && census.reserved == 0
        })
        .await?;
    let refused = site.conductor("conductor-1")?.says(REFUSED) - before;
    account.say(&format!(
        "{refused} writes of the one that went on were refused"
    ));
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
