//! What became of each disk.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use crate::disk::device::Disk;
use crate::disk::erase::means::Level;
use crate::disk::erase::means::Means;
use crate::disk::erase::pool::Outcome;
use crate::disk::error::Error;

/// What was done with a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Signatures, tables and both ends are gone, the rest is untouched.
    Metadata,
    /// The drive erased itself, and what was written before is not found.
    Drive(Means),
    /// Every byte was overwritten, samples of the last pass read back.
    Overwritten {
        /// Passes of random data.
        random: u32,
        /// A last pass of zeroes.
        zeroes: bool,
    },
    /// Left alone, for this reason.
    Skipped(&'static str),
}

impl Method {
    /// The level that was reached.
    pub fn level(self) -> Level {
        match self {
            Self::Metadata => Level::MetadataOnly,
            Self::Drive(means) => means.level(),
            Self::Overwritten { .. } => Level::Overwrite,
            Self::Skipped(_) => Level::Untouched,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metadata => f.write_str("metadata wiped"),
            Self::Drive(means) => means.fmt(f),
            Self::Overwritten { random: 0, .. } => f.write_str("overwritten with zeroes"),
            Self::Overwritten { random, zeroes } => {
                let times = if *random == 1 { "time" } else { "times" };
                write!(f, "overwritten {random} {times} with random data")?;
                if *zeroes {
                    f.write_str(", then with zeroes")?;
                }
                Ok(())
            }
            Self::Skipped(reason) => write!(f, "skipped: {reason}"),
        }
    }
}

/// A disk that is done with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) method: Method,
    /// The drive's own means that it was found to have.
    pub(super) planned: Vec<Means>,
    /// Means that were tried before and failed, with the causes.
    pub(super) failed: Vec<(Means, String)>,
}

impl From<Method> for Done {
    fn from(method: Method) -> Self {
        Self {
            method,
            planned: Vec::new(),
            failed: Vec::new(),
        }
    }
}

/// One disk's outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskOutcome {
    /// The disk.
    pub path: PathBuf,
    /// Its serial number.
    pub serial: Option<String>,
    /// What was achieved.
    pub method: Method,
    /// The drive's own means that it was found to have, the best first.
    pub planned: Vec<Means>,
    /// Means that were tried before and failed, with the causes.
    pub failed: Vec<(Means, String)>,
    /// How long it took.
    pub elapsed: Duration,
}

impl DiskOutcome {
    fn to_value(&self) -> Value {
        let planned: Vec<String> = self.planned.iter().map(Means::to_string).collect();
        let failed = self.failed.iter().map(|(means, cause)| {
            json!({
                "method": means.to_string(),
                "error": cause,
            })
        });
        json!({
            "device": self.path,
            "serial": self.serial,
            "method": self.method.to_string(),
            "level": self.method.level().as_str(),
            "drive_means": planned,
            "failed": failed.collect::<Vec<_>>(),
            "seconds": self.elapsed.as_secs(),
        })
    }
}

/// All disks' outcomes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EraseReport {
    /// In the order in which they were taken on.
    pub disks: Vec<DiskOutcome>,
}

impl EraseReport {
    /// For a command's result.
    pub fn to_value(&self) -> Value {
        Value::Array(self.disks.iter().map(DiskOutcome::to_value).collect())
    }
}

/// Some disks could not be emptied.
#[derive(Debug, thiserror::Error)]
#[error("{} of {total} disks could not be erased: {}{}", failures.len(), texts(failures), others(done))]
pub struct EraseError {
    /// Disks that were tried.
    pub total: usize,
    /// Disks that failed, with all causes.
    pub failures: Vec<(PathBuf, Error)>,
    /// What became of the others.
    pub done: EraseReport,
}

fn texts(failures: &[(PathBuf, Error)]) -> String {
    let one = |(path, error): &(PathBuf, Error)| {
        let mut text = format!("{}: {error}", path.display());
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    };
    failures.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn others(done: &EraseReport) -> String {
    let others: Vec<String> = done
        .disks
        .iter()
        .map(|disk| format!("{} ({})", disk.path.display(), disk.method))
        .collect();
    if others.is_empty() {
        return String::new();
    }
    format!("; done with the others: {}", others.join(", "))
}

/// Sorts outcomes into a report or an error.
pub(super) fn collect(disks: &[&Disk], outcomes: Vec<Outcome>) -> Result<EraseReport, EraseError> {
    let mut report = EraseReport::default();
    let mut failures = Vec::new();
    for (disk, (outcome, elapsed)) in disks.iter().zip(outcomes) {
        match outcome {
            Ok(done) => {
                let (method, level) = (done.method, done.method.level().as_str());
                if let Method::Skipped(reason) = method {
                    tracing::warn!(dev = %disk.path.display(), reason, "a disk is left as it is");
                } else {
                    tracing::info!(dev = %disk.path.display(), %method, level, "a disk was erased");
                }
                report.disks.push(DiskOutcome {
                    path: disk.path.clone(),
                    serial: disk.serial().map(str::to_owned),
                    method,
                    planned: done.planned,
                    failed: done.failed,
                    elapsed,
                });
            }
            Err(error) => {
                tracing::error!(dev = %disk.path.display(), %error, "a disk was not erased");
                failures.push((disk.path.clone(), error));
            }
        }
    }
    if failures.is_empty() {
        return Ok(report);
    }
    Err(EraseError {
        total: disks.len(),
        failures,
        done: report,
    })
}
