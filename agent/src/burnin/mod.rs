//! Burn-in: load that makes weak hardware fail before it matters, by stress-ng
//! and fio where the ramdisk has them.
//!
//! Settings stand in `driver_info`, under Ironic's names:
//!
//! | setting | meaning | default |
//! |---|---|---|
//! | `agent_burnin_cpu_timeout` | seconds | 86400 |
//! | `agent_burnin_cpu_cpu` | processors, 0 for all | 0 |
//! | `agent_burnin_vm_timeout` | seconds | 86400 |
//! | `agent_burnin_vm_vm-bytes` | how much memory, as stress-ng has it | 98% |
//! | `agent_burnin_fio_disk_runtime` | seconds, 0 for no limit | 0 |
//! | `agent_burnin_fio_disk_loops` | times over the disks | 4 |
//! | `agent_burnin_fio_disk_smart_test` | a long SMART self-test afterwards | false |
//! | `agent_burnin_fio_network_runtime` | seconds for each direction | 21600 |
//! | `agent_burnin_fio_network_config` | `{"role": "writer" or "reader", "partner": HOST}` | needed |
//! | `agent_burnin_{cpu,vm,fio_disk,fio_network}_outputfile` | where the tool writes its figures | – |

mod fio;
mod settings;
mod smart;
mod stress;

use serde_json::Map;
use serde_json::Value;

use std::time::Duration;

use wrought_wire::progress::Progress;

use crate::command::CancelToken;
use crate::command::ProgressSink;
use crate::disk::Disk;
use crate::disk::DiskRules;
use crate::tools::Call;
use crate::tools::ToolError;
use crate::tools::Tools;
use settings::Settings;

/// What is put under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Test {
    Cpu,
    Memory,
    Disk,
    Network,
}

/// Why a machine did not pass.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BurnInError {
    /// The tool is missing, or has found something.
    #[error("burn-in of the {what}")]
    Tool {
        /// What was under load.
        what: &'static str,
        /// What the tool says.
        source: ToolError,
    },
    /// A setting that cannot be used.
    #[error("driver_info.{key}: expected {expected}, found {found}")]
    Setting {
        /// Its name.
        key: &'static str,
        /// What it can be.
        expected: &'static str,
        /// What it is.
        found: Value,
    },
    /// Nothing to put under load.
    #[error("burn-in of the disks: there is none that may be overwritten; {0}")]
    NoDisks(String),
    /// The partner does not turn up.
    #[error(
        "burn-in of the network: {partner} did not answer within {} s; is its step \
         burnin_network running, with the other role?",
        waited.as_secs()
    )]
    NoPartner {
        /// The other machine.
        partner: String,
        /// How long it was tried.
        waited: Duration,
    },
    /// A disk's own test has failed.
    #[error("burn-in of the disks: {disk}: its SMART self-test ended with {verdict}")]
    SelfTest {
        /// The disk.
        disk: String,
        /// What it says.
        verdict: String,
    },
    /// The agent shuts down.
    #[error("burn-in was stopped, because the agent shuts down")]
    Stopped,
}

/// What a burn-in works with.
pub(crate) struct Bench<'a> {
    /// `driver_info` of the node.
    pub(crate) info: &'a Map<String, Value>,
    /// The disks of this machine.
    pub(crate) disks: &'a [Disk],
    /// Which of them must be left alone.
    pub(crate) rules: &'a DiskRules,
    /// Who calls programs.
    pub(crate) tools: &'a dyn Tools,
    /// Where progress goes.
    pub(crate) progress: &'a ProgressSink,
    /// Whether to stop.
    pub(crate) cancel: &'a CancelToken,
}

impl Bench<'_> {
    /// Runs a test to its end; gives what was done, in one sentence.
    pub(crate) fn run(&self, test: Test) -> Result<String, BurnInError> {
        let settings = Settings(self.info);
        match test {
            Test::Cpu => stress::cpu(self, settings),
            Test::Memory => stress::memory(self, settings),
            Test::Disk => fio::disks(self, settings),
            Test::Network => fio::network(self, settings),
        }
    }

    /// Runs a tool; `expected` is how long it should take, for the progress.
    fn tool(
        &self,
        (what, stage): (&'static str, &'static str),
        program: &str,
        arguments: Vec<String>,
        limit: Duration,
        expected: Option<Duration>,
    ) -> Result<String, BurnInError> {
        let progress = |elapsed: Duration| {
            let percent = expected.map(|expected| {
                let percent = elapsed.as_secs() * 100 / expected.as_secs().max(1);
                u8::try_from(percent.min(99)).unwrap_or(99)
            });
            self.progress.set(Progress {
                stage: stage.to_owned(),
                percent,
                eta: expected.map(|expected| expected.saturating_sub(elapsed).as_secs()),
                ..Progress::default()
            });
        };
        progress(Duration::ZERO);
        let call = Call {
            limit,
            tick: Some(&progress),
            ..Call::new(program, arguments)
        };
        let output = self
            .tools
            .run(&call)
            .map_err(|source| BurnInError::Tool { what, source })?;
        for line in output.lines().filter(|line| !line.trim().is_empty()) {
            tracing::info!("{program}: {line}");
        }
        Ok(output)
    }
}

#[cfg(test)]
mod tests;
