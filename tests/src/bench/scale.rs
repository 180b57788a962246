//! `bench scale`: one conductor with thousands of nodes in `clean wait`, each
//! at a step that its agent is at, while all agents call in: at Ironic's
//! interval and every 10 s. HTTPS both ways, as the server runs by default,
//! SQLite, periodic tasks at their default intervals of a minute; only
//! authentication is off, which heartbeats do not pass anyway.

use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use serde_json::Value;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::runtime::Runtime;

use super::load::percentile;
use super::serving::Wrought;
use crate::fleet::Agent;
use crate::fleet::beats::Beats;
use crate::fleet::beats::Interval;
use crate::fleet::commands::Commands;
use crate::fleet::copies;
use crate::fleet::join::join;

/// File descriptors: two for each agent's connections in both processes.
const FILES: u64 = 65_536;

/// Threads of the fleet.
const THREADS: usize = 4;

/// How it is run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Simulated nodes.
    #[arg(long, default_value_t = 10_000)]
    nodes: usize,
    /// Seconds that each phase is measured; periodic tasks run every 60 s.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// One JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// The phases: name, interval, and the time before the measurement.
const PHASES: [(&str, Interval, Duration); 2] = [
    (
        "ironic_interval",
        Interval::Between(Duration::from_secs(90), Duration::from_secs(180)),
        // The first calls are spread over a whole interval; what is awaited
        // is the conductor's own start.
        Duration::from_secs(20),
    ),
    (
        "every_10_s",
        Interval::Every(Duration::from_secs(10)),
        Duration::from_secs(12),
    ),
];

/// Starts server and fleet and measures.
pub async fn run(work: &Path, server: &Path, options: &Options) -> Result<Value> {
    raise_file_limit()?;
    // The harness's own one thread would be too slow for so many handshakes.
    let fleet = Fleet::new()?;
    let commands = Commands::start(true).await?;
    let mut wrought = Wrought::new(server, work, true)?;
    wrought.start().await?;
    let idle = wrought.serving()?.rss()?;
    let model = join(&wrought.api()?, &commands, 1).await?;
    let model = model.first().context("no node came to clean wait")?;
    wrought.stop().await;
    let more = options.nodes.saturating_sub(1);
    let mut agents = copies::copy(&wrought.database(), model, &commands, more).await?;
    agents.push(model.clone());
    wrought.start().await?;
    let mut phases = Vec::new();
    for (name, interval, warm_up) in PHASES {
        let span = Duration::from_secs(options.seconds);
        let phase = phase(
            &fleet, &wrought, &commands, &agents, interval, warm_up, span,
        )
        .await;
        let mut phase = phase.with_context(|| format!("phase {name}"))?;
        phase["phase"] = name.into();
        phases.push(phase);
    }
    let peak = wrought.serving()?.peak_rss()?;
    wrought.stop().await;
    Ok(json!({
        "bench": "scale", "nodes": options.nodes, "seconds_of_a_phase": options.seconds,
        "idle_rss_bytes": idle, "peak_rss_bytes": peak, "phases": phases,
    }))
}

/// The threads of the fleet.
struct Fleet(Option<Runtime>);

impl Fleet {
    fn new() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    fn handle(&self) -> Result<&Handle> {
        let runtime = self.0.as_ref().context("the fleet has ended")?;
        Ok(runtime.handle())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // A runtime must not be waited for within another.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

async fn phase(
    fleet: &Fleet,
    wrought: &Wrought,
    commands: &Commands,
    agents: &[Agent],
    interval: Interval,
    warm_up: Duration,
    span: Duration,
) -> Result<Value> {
    let spread = match interval {
        Interval::Every(interval) => interval,
        Interval::Between(least, most) => (least + most) / 2,
    };
    let beats = Beats::start(
        fleet.handle()?,
        &wrought.target()?,
        agents,
        interval,
        spread,
    );
    tokio::time::sleep(warm_up).await;
    beats.take();
    let serving = wrought.serving()?;
    let (started, cpu, asked) = (Instant::now(), serving.cpu()?, commands.asked());
    let mut rss = 0;
    while started.elapsed() < span {
        let left = span.saturating_sub(started.elapsed());
        tokio::time::sleep(left.min(Duration::from_secs(1))).await;
        rss = rss.max(serving.rss()?);
    }
    let wall = started.elapsed().as_secs_f64();
    let used = serving.cpu()?.saturating_sub(cpu).as_secs_f64();
    let mut seen = beats.take();
    beats.stop().await;
    let calls = seen.times.len();
    Ok(json!({
        "heartbeats_per_second": calls as f64 / wall,
        "heartbeats_meant_per_second": interval.rate(agents.len()),
        "cpu_seconds_per_second": used / wall,
        "largest_rss_bytes": rss,
        "p50_ms": percentile(&mut seen.times, 0.50),
        "p99_ms": percentile(&mut seen.times, 0.99),
        "refused": seen.refused, "lost": seen.lost, "last_loss": seen.why,
        "connections_made_per_second": seen.connected as f64 / wall,
        "agents_asked_per_second": (commands.asked() - asked) as f64 / wall,
    }))
}

/// Lets this process and the server that it starts have a file for each agent.
fn raise_file_limit() -> Result<()> {
    use nix::sys::resource::Resource;
    use nix::sys::resource::getrlimit;
    use nix::sys::resource::setrlimit;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(FILES.min(hard)), hard)
        .context("raising the limit of open files")
}

/// Prints the result for a person.
pub fn print(found: &Value) {
    let megabytes = |value: &Value| value.as_f64().unwrap_or(f64::NAN) / 1e6;
    println!(
        "{} nodes; resident memory idle {:.1} MB, peak {:.1} MB",
        found["nodes"],
        megabytes(&found["idle_rss_bytes"]),
        megabytes(&found["peak_rss_bytes"])
    );
    for phase in found["phases"].as_array().into_iter().flatten() {
        let figure = |name: &str| phase[name].as_f64().unwrap_or(f64::NAN);
        println!(
            "{}: {:.1} heartbeats/s (meant {:.1}), {:.3} CPU seconds a second, {:.1} MB, \
             p50 {:.2} ms, p99 {:.2} ms, {} refused, {} lost, {:.1} connections/s, \
             {:.1} agents asked/s",
            phase["phase"].as_str().unwrap_or_default(),
            figure("heartbeats_per_second"),
            figure("heartbeats_meant_per_second"),
            figure("cpu_seconds_per_second"),
            megabytes(&phase["largest_rss_bytes"]),
            figure("p50_ms"),
            figure("p99_ms"),
            phase["refused"],
            phase["lost"],
            figure("connections_made_per_second"),
            figure("agents_asked_per_second")
        );
    }
}
