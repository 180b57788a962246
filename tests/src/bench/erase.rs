//! `bench erase`: emptying disks by the agent's clean steps, against what one
//! would type instead: `shred`, and `wipefs`, `sgdisk` and `dd` for what only
//! makes a disk look used. Loop devices past the page cache, all disks at the
//! same time on either side. A loop device has write-zeroes, as many drives do.
//! Everybody takes turns; before each turn the disks are full, and after ours
//! they are read to the end.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use serde_json::Value;
use serde_json::json;

use super::loop_device::Loop;
use super::loop_device::settle;
use super::process::measure;
use super::process::median;
use super::stop::Stop;
use crate::child;
use crate::child::Daemon;
use crate::lone::Agent;
use crate::lone::Api;
use crate::lone::agent::node;
use crate::running;

/// For the agent to start, and to end.
const START: Duration = Duration::from_secs(60);
/// For one step.
const STEP: Duration = Duration::from_secs(600);
const MIB: usize = 1 << 20;

/// How it is run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Rounds; the figures are their medians.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Disks, erased at the same time.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    disks: u32,
    /// Size of each, MiB.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(16..))]
    mib: u64,
    /// One JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// What is done to the disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Random data, then zeroes: Ironic's default.
    RandomAndZeroes,
    /// Zeroes.
    Zeroes,
    /// What a machine could recognise.
    Metadata,
}

impl Work {
    const ALL: [Self; 3] = [Self::RandomAndZeroes, Self::Zeroes, Self::Metadata];

    fn name(self) -> &'static str {
        match self {
            Self::RandomAndZeroes => "random_and_zeroes",
            Self::Zeroes => "zeroes",
            Self::Metadata => "metadata",
        }
    }

    fn step(self) -> &'static str {
        match self {
            Self::RandomAndZeroes | Self::Zeroes => "erase_devices",
            Self::Metadata => "erase_devices_metadata",
        }
    }

    /// What one would type for one disk, `$1`.
    fn script(self) -> &'static str {
        match self {
            Self::RandomAndZeroes => "shred --force --zero --iterations=1 \"$1\"",
            Self::Zeroes => "shred --force --zero --iterations=0 \"$1\"",
            Self::Metadata => {
                "wipefs --quiet --force --all \"$1\" && sectors=$(blockdev --getsz \"$1\") && \
                 dd if=/dev/zero of=\"$1\" count=33 conv=fsync status=none && \
                 dd if=/dev/zero of=\"$1\" count=33 seek=$((sectors - 33)) conv=fsync status=none && \
                 sgdisk --zap-all \"$1\" >/dev/null"
            }
        }
    }
}

/// One turn.
#[derive(Debug, Clone, Copy)]
struct Turn {
    wall: f64,
    cpu: f64,
}

/// Measures.
pub async fn run(work: &Path, agent: &Path, options: &Options) -> Result<Value> {
    let mut disks = Vec::new();
    for number in 0..options.disks {
        let path = work.join(format!("disk{number}"));
        disks.push(Loop::new(&path, options.mib << 20)?);
    }
    let api = Api::start().await?;
    let mut command = child::command(agent);
    command.args(["run", "--api-url"]);
    command.arg(format!("http://127.0.0.1:{}", api.port()));
    command.args(["--listen", "127.0.0.1:0"]);
    for disk in &disks {
        command.arg("--only-disk").arg(disk.path());
    }
    let log = work.join("agent.log");
    let daemon = Daemon::start("agent", command, &log)?;
    let beat = tokio::select! {
        beat = tokio::time::timeout(START, api.beat()) => beat.ok(),
        _ = daemon.wait() => None,
    };
    let Some(beat) = beat else {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        bail!("the agent has not started: {}", said.trim());
    };
    let client = Agent::new(&beat?.callback_url, api.token())?;
    let bench = Bench {
        disks,
        client,
        daemon,
        stop: Stop::default(),
    };
    let _guard = bench.stop.guard();
    let rows = bench.rows(options.runs).await?;
    let memory = running::bytes(bench.daemon.pid().as_raw(), "VmHWM:").context("no VmHWM")?;
    bench.daemon.stop(START).await;
    Ok(json!({
        "benchmark": "erase",
        "runs": options.runs,
        "disks": options.disks,
        "disk_mib": options.mib,
        "peak_rss_mib": memory as f64 / MIB as f64,
        "rows": rows,
    }))
}

struct Bench {
    disks: Vec<Loop>,
    client: Agent,
    daemon: Daemon,
    stop: Stop,
}

impl Bench {
    async fn rows(&self, runs: u32) -> Result<Vec<Value>> {
        let mut rows = Vec::new();
        for work in Work::ALL {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for round in 0..runs {
                // Another one begins each time.
                for turn in 0..2 {
                    self.fill(work)?;
                    if (round + turn) % 2 == 0 {
                        ours.push(self.ours(work).await?);
                        self.check(work)?;
                    } else {
                        theirs.push(self.typed(work).await?);
                    }
                }
            }
            rows.push(row(work, &ours, &theirs));
        }
        Ok(rows)
    }

    /// Data from end to end; for the metadata's sake a table and a file system.
    fn fill(&self, work: Work) -> Result<()> {
        let data: Vec<u8> = b"tenant-data-".iter().copied().cycle().take(MIB).collect();
        for disk in &self.disks {
            let file = disk.backing();
            let size = file.metadata()?.len();
            for at in (0..size).step_by(MIB) {
                file.write_all_at(&data, at).context("filling a disk")?;
            }
            if work == Work::Metadata {
                let mut table = Command::new("sgdisk");
                table.args(["--clear", "--new=1:2048:+8M", "--new=2:0:0"]);
                let path = disk.path();
                measure(
                    table.arg(path).stdout(std::process::Stdio::null()),
                    &self.stop,
                )?;
            }
            settle(file)?;
        }
        Ok(())
    }

    /// The agent's step.
    async fn ours(&self, work: Work) -> Result<Turn> {
        let passes = i32::from(work == Work::RandomAndZeroes);
        let node = node(
            json!({}),
            json!({
                "agent_erase_devices_iterations": passes,
                "agent_erase_devices_zeroize": true,
                "disk_erasure_concurrency": self.disks.len(),
            }),
        );
        let pid = self.daemon.pid().as_raw();
        let (before, start) = (running::cpu(pid)?, Instant::now());
        let done = self
            .client
            .clean("deploy", work.step(), &node, STEP)
            .await?;
        let wall = start.elapsed().as_secs_f64();
        if let Err(details) = done {
            bail!("{} failed: {details}", work.step());
        }
        let cpu = (running::cpu(pid)? - before).as_secs_f64();
        Ok(Turn { wall, cpu })
    }

    /// What one would type, on all disks at the same time.
    async fn typed(&self, work: Work) -> Result<Turn> {
        let mut command = Command::new("sh");
        let script = format!(
            "one() {{ {}; }}; pids=; for disk; do one \"$disk\" & pids=\"$pids $!\"; done; \
             for pid in $pids; do wait \"$pid\" || exit 1; done",
            work.script()
        );
        command.args(["-c", &script, "sh"]);
        command.args(self.disks.iter().map(Loop::path));
        let stop = self.stop.clone();
        let usage = tokio::task::spawn_blocking(move || measure(&mut command, &stop)).await??;
        Ok(Turn {
            wall: usage.wall,
            cpu: usage.cpu,
        })
    }

    /// Nothing is left of what was there.
    fn check(&self, work: Work) -> Result<()> {
        for disk in &self.disks {
            let name = disk.path().display();
            let mut file = File::open(disk.path())?;
            let mut block = vec![0; MIB];
            if work == Work::Metadata {
                file.read_exact(&mut block)?;
                ensure!(
                    !block.windows(8).any(|found| found == b"EFI PART"),
                    "a partition table is left on {name}"
                );
                continue;
            }
            let size = disk.backing().metadata()?.len();
            for at in (0..size).step_by(MIB) {
                file.read_exact(&mut block)?;
                ensure!(
                    block.iter().all(|byte| *byte == 0),
                    "{name} is not zero in the MiB from offset {at}"
                );
            }
        }
        Ok(())
    }
}

fn row(work: Work, ours: &[Turn], theirs: &[Turn]) -> Value {
    let middle = |turns: &[Turn], of: fn(&Turn) -> f64| {
        let mut values: Vec<f64> = turns.iter().map(of).collect();
        median(&mut values)
    };
    // Within a round, so that a drifting machine slows both.
    let mut ratios: Vec<f64> = ours
        .iter()
        .zip(theirs)
        .map(|(ours, theirs)| ours.wall / theirs.wall)
        .collect();
    json!({
        "work": work.name(),
        "seconds": middle(ours, |turn| turn.wall),
        "cpu_seconds": middle(ours, |turn| turn.cpu),
        "typed_seconds": middle(theirs, |turn| turn.wall),
        "typed_cpu_seconds": middle(theirs, |turn| turn.cpu),
        "ratio": median(&mut ratios),
    })
}

/// For a person, and for SPECIFICATION.md.
pub fn print(found: &Value) {
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    println!(
        "{} disks of {} MiB at the same time, medians of {}; the agent's peak: {:.1} MiB\n",
        found["disks"],
        found["disk_mib"],
        found["runs"],
        number(&found["peak_rss_mib"])
    );
    println!("| work | ours: s, CPU s | typed: s, CPU s | ours of theirs |\n|---|---|---|---|");
    for row in found["rows"].as_array().into_iter().flatten() {
        println!(
            "| {} | {:.2}, {:.2} | {:.2}, {:.2} | × {:.2} |",
            row["work"].as_str().unwrap_or_default(),
            number(&row["seconds"]),
            number(&row["cpu_seconds"]),
            number(&row["typed_seconds"]),
            number(&row["typed_cpu_seconds"]),
            number(&row["ratio"])
        );
    }
}
