//! Runs scenarios, two at a time unless told otherwise (much of a scenario is
//! waiting), each in a process of its own.

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use anyhow::bail;
use tokio::task::JoinSet;

use crate::child;
use crate::paths::Paths;
use crate::scenarios::SCENARIOS;
use crate::scenarios::Scenario;
use crate::serial::tail;

/// Whether it is one to run by itself.
fn is_run(scenario: &Scenario, all: bool) -> bool {
    !scenario.name.starts_with('_') && (all || !scenario.slow)
}

/// Prints the names with what they show.
pub fn list(all: bool) {
    for scenario in SCENARIOS.iter().filter(|scenario| is_run(scenario, all)) {
        println!("{:<24} {}", scenario.name, scenario.shows);
    }
}

/// How one scenario ended.
struct Row {
    name: &'static str,
    verdict: &'static str,
    seconds: f64,
}

/// Runs those whose names contain `filter`, `jobs` at a time.
pub async fn run(filter: Option<String>, all: bool, jobs: usize) -> Result<ExitCode> {
    let filter = filter.unwrap_or_default();
    let chosen: Vec<_> = SCENARIOS
        .iter()
        .filter(|scenario| scenario.name.contains(&filter) && is_run(scenario, all))
        .collect();
    if chosen.is_empty() && filter.is_empty() {
        bail!("there are no scenarios");
    }
    let paths = Paths::find()?;
    let folder = paths.runs.join("tests");
    std::fs::create_dir_all(&folder)?;
    let mut waiting = chosen.into_iter();
    let mut running = JoinSet::new();
    let mut table = Vec::new();
    loop {
        while running.len() < jobs.max(1)
            && let Some(scenario) = waiting.next()
        {
            println!("-- {}: {}", scenario.name, scenario.shows);
            running.spawn(one(scenario, folder.join(format!("{}.log", scenario.name))));
        }
        match running.join_next().await {
            Some(row) => table.push(row??),
            None => break,
        }
    }
    println!("\n  scenario                 result      seconds");
    for row in &table {
        println!(
            "  {:<24} {:<10} {:>8.1}",
            row.name, row.verdict, row.seconds
        );
    }
    let failed = table.iter().filter(|row| row.verdict != OK).count();
    println!("  {} passed, {failed} failed", table.len() - failed);
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The verdict of a scenario that held.
const OK: &str = "ok";

/// Runs one scenario to its end and prints how it went.
async fn one(scenario: &'static Scenario, log: PathBuf) -> Result<Row> {
    let started = Instant::now();
    let out = File::create(&log)?;
    let mut command = child::command(std::env::current_exe()?);
    command
        .args(["scenario", scenario.name])
        .stdout(out.try_clone()?)
        .stderr(out);
    let mut running = command.spawn()?;
    let verdict = match tokio::time::timeout(scenario.limit, running.wait()).await {
        Ok(status) if status.as_ref().is_ok_and(std::process::ExitStatus::success) => OK,
        Ok(_) => "FAILED",
        Err(_) => {
            running.kill().await?;
            "TIMED OUT"
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "   {}: {verdict} after {seconds:.0} s ({})",
        scenario.name,
        log.display()
    );
    if verdict != OK {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        for line in tail(&said, 25) {
            println!("   | {line}");
        }
    }
    Ok(Row {
        name: scenario.name,
        verdict,
        seconds,
    })
}
