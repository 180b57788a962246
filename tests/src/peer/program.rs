//! A program on openstacksdk: what somebody's own code would do.

use std::time::Duration;

use anyhow::Context;
use anyhow::Result;

use super::differences::Found;
use super::subject::Subject;
use crate::child;
use crate::paths::Paths;

/// The program.
const PROGRAM: &str = include_str!("sdk.py");
/// For all of it.
const LIMIT: Duration = Duration::from_secs(240);

/// Runs it; where it stops is the one difference.
pub async fn run(paths: &Paths, subject: &Subject) -> Result<Vec<Found>> {
    let program = subject.work().join("sdk.py");
    std::fs::write(&program, PROGRAM)?;
    let mut command = child::command(paths.tool("python")?);
    command.arg(&program).arg(subject.client().base());
    let output = tokio::time::timeout(LIMIT, command.output())
        .await
        .context("the openstacksdk program did not come to an end")??;
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    if output.status.success() {
        return Ok(Vec::new());
    }
    let after = said.lines().last().unwrap_or("ok nothing");
    let error = String::from_utf8_lossy(&output.stderr);
    let last = error.trim().lines().last().unwrap_or_default();
    let place = format!("program/after {}", after.trim_start_matches("ok "));
    Ok(vec![Found::new(place, last)])
}
