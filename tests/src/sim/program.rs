//! A ramdisk that is a program on this host: a real agent in a simulated
//! machine.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;

use super::Machine;
use super::machine::Life;
use crate::child;
use crate::child::Daemon;

/// Between two looks at the program.
const PAUSE: Duration = Duration::from_millis(100);

/// The program that a machine runs where it boots the ramdisk.
#[derive(Debug, Clone)]
pub struct Program {
    /// What is run.
    pub path: PathBuf,
    /// With which arguments; `API` stands for the URL that the ramdisk is told.
    pub arguments: Vec<String>,
    /// With what in its environment.
    pub environment: Vec<(String, String)>,
    /// A file in which it writes `poweroff` to have the machine switched off.
    pub wishes: PathBuf,
    /// Where its output goes.
    pub log: PathBuf,
}

/// Runs the program until it, or this life, ends.
pub(super) async fn run(machine: &Machine, life: &Life, program: &Program) -> Result<()> {
    let told = machine.told();
    let api = told
        .get("ipa-api-url")
        .context("the ramdisk is told no API")?;
    std::fs::write(&program.wishes, "").context("making the file of wishes")?;
    let mut command = child::command(&program.path);
    command
        .args(
            program
                .arguments
                .iter()
                .map(|word| word.replace("API", api)),
        )
        .envs(program.environment.iter().cloned());
    let daemon = Daemon::start("the ramdisk's program", command, &program.log)?;
    machine.write(|log| log.say(&format!("life {}: process {}", life.number, daemon.pid())));
    loop {
        let wishes = std::fs::read_to_string(&program.wishes).unwrap_or_default();
        if wishes.contains("poweroff") {
            machine.power_off_by(life);
        }
        if let Some(status) = daemon.status() {
            machine.write(|log| log.say(&format!("life {}: {status}", life.number)));
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}
