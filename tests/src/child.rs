//! Child processes that cannot outlive the harness.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::sys::signal::killpg;
use nix::unistd::Pid;
use nix::unistd::getpid;
use nix::unistd::getppid;
use tokio::process::Command;
use tokio::sync::watch;

/// A command whose process dies with this one, however this one ends, and
/// that a Ctrl-C on the terminal does not reach: the harness stops it.
///
/// The kernel ties the death signal to the *thread* that forked, so children
/// are started from the runtime's one thread, never from a blocking task.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .process_group(0);
    tie(command.as_std_mut());
    command
}

/// Has the process of `command` die with the thread that starts it.
pub fn tie(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    let parent = getpid();
    // SAFETY: between fork and exec only prctl and getppid are called, which
    // are async-signal-safe and allocate nothing.
    unsafe {
        command.pre_exec(move || {
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            if getppid() != parent {
                return Err(std::io::ErrorKind::NotConnected.into());
            }
            Ok(())
        });
    }
}

/// A long-running child with its output in a file.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    pid: Pid,
    exited: watch::Receiver<Option<ExitStatus>>,
}

impl Daemon {
    /// Starts `command` with standard output and error appended to `log`.
    pub fn start(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        let out = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("opening the log {}", log.display()))?;
        command.stdout(out.try_clone()?).stderr(out);
        let mut child = command.spawn().with_context(|| {
            format!(
                "starting {name} ({})",
                command.as_std().get_program().display()
            )
        })?;
        let pid = Pid::from_raw(
            child
                .id()
                .context("the child has no process id")?
                .cast_signed(),
        );
        let (report, exited) = watch::channel(None);
        tokio::spawn(async move {
            let status = child
                .wait()
                .await
                .unwrap_or_else(|_| ExitStatus::from_raw(-1));
            report.send_replace(Some(status));
        });
        Ok(Self {
            name: name.to_owned(),
            pid,
            exited,
        })
    }

    /// How it ended, if it has.
    pub fn status(&self) -> Option<ExitStatus> {
        *self.exited.borrow()
    }

    /// Its process id, for signals while it runs.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits for its end.
    pub async fn wait(&self) -> Option<ExitStatus> {
        let mut exited = self.exited.clone();
        exited
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|status| *status)
    }

    /// Sends a signal, if it still runs.
    pub fn signal(&self, signal: Signal) {
        if self.status().is_none() {
            // A race with its end gives ESRCH at worst: the pid is not
            // reused before our waiting task has reaped it.
            kill(self.pid, signal).ok();
        }
    }

    /// Asks it to end, and kills it after `patience`.
    pub async fn stop(&self, patience: Duration) {
        self.signal(Signal::SIGTERM);
        if tokio::time::timeout(patience, self.wait()).await.is_err() {
            tracing::debug!(name = self.name, "did not end by itself, killed");
            self.signal(Signal::SIGKILL);
            self.wait().await;
        }
    }
}

/// Processes that it has started and that are still in its group end with it.
impl Drop for Daemon {
    fn drop(&mut self) {
        if self.status().is_none() {
            killpg(self.pid, Signal::SIGKILL).ok();
            // One that leads no group.
            self.signal(Signal::SIGKILL);
        }
    }
}
