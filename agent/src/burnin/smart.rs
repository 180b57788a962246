//! The long self-test of disks, by smartctl (its JSON output).

use std::thread;
use std::time::Duration;
use std::time::Instant;

use serde_json::Value;

use super::Bench;
use super::BurnInError;
use crate::disk::Disk;

/// The pause between two looks.
const LOOK: Duration = Duration::from_secs(30);
/// Large disks take a day; longer than this nobody waits.
const MOST: Duration = Duration::from_secs(7 * 86400);
/// Time of one call.
const CALL: Duration = Duration::from_secs(60);

/// Starts the test on all disks and waits for all of them.
pub(super) fn long_test(bench: &Bench<'_>, disks: &[&Disk]) -> Result<(), BurnInError> {
    let call = |arguments: &[&str], disk: &Disk| {
        let mut arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        arguments.push(disk.path.display().to_string());
        let what = ("disks", "burnin_disk");
        bench.tool(what, "smartctl", arguments, CALL, None)
    };
    for disk in disks {
        call(&["-t", "long"], disk)?;
    }
    let start = Instant::now();
    let mut left = disks.to_vec();
    let mut failed = None;
    loop {
        let mut running = Vec::new();
        for disk in left {
            match verdict(&call(&["-c", "-j"], disk)?) {
                Verdict::Passed => {}
                Verdict::Running => running.push(disk),
                Verdict::Failed(verdict) => {
                    let disk = disk.path.display().to_string();
                    failed.get_or_insert(BurnInError::SelfTest { disk, verdict });
                }
            }
        }
        if running.is_empty() {
            return failed.map_or(Ok(()), Err);
        }
        if start.elapsed() >= MOST {
            let disk = running[0].path.display().to_string();
            let verdict = "no verdict within a week".to_owned();
            return Err(BurnInError::SelfTest { disk, verdict });
        }
        if bench.cancel.is_cancelled() {
            return Err(BurnInError::Stopped);
        }
        thread::sleep(LOOK);
        left = running;
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Passed,
    Running,
    Failed(String),
}

/// Reads it off smartctl's answer.
pub(super) fn verdict(answer: &str) -> Verdict {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    let status = &answer["ata_smart_data"]["self_test"]["status"];
    if status.get("remaining_percent").is_some() {
        return Verdict::Running;
    }
    if status["passed"] == true {
        return Verdict::Passed;
    }
    let text = status["string"].as_str();
    let text = text.unwrap_or("no self-test status in smartctl's answer");
    Verdict::Failed(text.to_owned())
}
