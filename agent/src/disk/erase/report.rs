//! What became of each disk.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use crate::disk::device::Disk;
use crate::disk::error::Error;

/// What was achieved on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Signatures, tables and both ends are gone, the rest is untouched.
    Metadata,
    /// Every byte was overwritten with zeroes, samples read back.
    Zeroes,
    /// The NVMe controller threw its encryption key away.
    NvmeCryptographicErase,
    /// The NVMe controller erased all user data.
    NvmeUserDataErase,
    /// Left alone, for this reason.
    Skipped(&'static str),
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metadata => f.write_str("metadata wiped"),
            Self::Zeroes => f.write_str("overwritten with zeroes"),
            Self::NvmeCryptographicErase => f.write_str("NVMe format, cryptographic erase"),
            Self::NvmeUserDataErase => f.write_str("NVMe format, user data erase"),
            Self::Skipped(reason) => write!(f, "skipped: {reason}"),
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
    /// How long it took.
    pub elapsed: Duration,
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
        let disks: Vec<Value> = self
            .disks
            .iter()
            .map(|disk| {
                json!({
                    "device": disk.path,
                    "serial": disk.serial,
                    "method": disk.method.to_string(),
                    "seconds": disk.elapsed.as_secs(),
                })
            })
            .collect();
        Value::Array(disks)
    }
}

/// Some disks could not be emptied.
#[derive(Debug, thiserror::Error)]
#[error("{} of {total} disks could not be erased: {}", failures.len(), texts(failures))]
pub struct EraseError {
    /// Disks that were tried.
    pub total: usize,
    /// Disks that failed, with all causes.
    pub failures: Vec<(PathBuf, Error)>,
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

/// Sorts outcomes into a report or an error.
pub(super) fn collect(
    disks: &[&Disk],
    outcomes: Vec<(Result<Method, Error>, Duration)>,
) -> Result<EraseReport, EraseError> {
    let mut report = EraseReport::default();
    let mut failures = Vec::new();
    for (disk, (outcome, elapsed)) in disks.iter().zip(outcomes) {
        match outcome {
            Ok(method) => {
                if let Method::Skipped(reason) = method {
                    tracing::warn!(dev = %disk.path.display(), reason, "a disk is left as it is");
                } else {
                    tracing::info!(dev = %disk.path.display(), %method, "a disk was erased");
                }
                let (path, serial) = (disk.path.clone(), disk.serial().map(str::to_owned));
                report.disks.push(DiskOutcome {
                    path,
                    serial,
                    method,
                    elapsed,
                });
            }
            Err(error) => failures.push((disk.path.clone(), error)),
        }
    }
    if failures.is_empty() {
        return Ok(report);
    }
    Err(EraseError {
        total: disks.len(),
        failures,
    })
}
