//! Runs scenarios one after the other, each in a process of its own.

use std::fs::File;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use anyhow::bail;

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

/// Runs those whose names contain `filter`.
pub async fn run(filter: Option<String>, all: bool) -> Result<ExitCode> {
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
    let mut failed = 0;
    let mut table = Vec::new();
    for scenario in chosen {
        let log = folder.join(format!("{}.log", scenario.name));
        println!("-- {}: {}", scenario.name, scenario.shows);
        let started = Instant::now();
        let out = File::create(&log)?;
        let mut command = child::command(std::env::current_exe()?);
        command
            .args(["scenario", scenario.name])
            .stdout(out.try_clone()?)
            .stderr(out);
        let mut running = command.spawn()?;
        let limit = scenario.limit;
        let verdict = match tokio::time::timeout(limit, running.wait()).await {
            Ok(status) if status.as_ref().is_ok_and(std::process::ExitStatus::success) => "ok",
            Ok(_) => "FAILED",
            Err(_) => {
                running.kill().await?;
                "TIMED OUT"
            }
        };
        let seconds = started.elapsed().as_secs_f64();
        println!("   {verdict} after {seconds:.0} s ({})", log.display());
        if verdict != "ok" {
            failed += 1;
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            for line in tail(&said, 25) {
                println!("   | {line}");
            }
        }
        table.push((scenario.name, verdict, seconds));
    }
    println!("\n  scenario                 result      seconds");
    for (name, verdict, seconds) in &table {
        println!("  {name:<24} {verdict:<10} {seconds:>8.1}");
    }
    println!("  {} passed, {failed} failed", table.len() - failed);
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
