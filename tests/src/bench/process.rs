//! Whole processes with what the kernel accounts for them.

use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use nix::errno::Errno;
use nix::sys::wait::Id;
use nix::sys::wait::WaitPidFlag;
use nix::sys::wait::waitid;
use nix::unistd::Pid;

use super::stop::Stop;
use crate::child;

/// What one finished process used.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Wall clock, seconds.
    pub wall: f64,
    /// User and system time of it and its reaped children, seconds.
    pub cpu: f64,
    /// Its peak resident set, bytes; of several processes, the largest.
    pub peak_rss: u64,
}

/// Runs a command to its end; an exit other than 0 is an error.
pub fn measure(command: &mut Command, stop: &Stop) -> Result<Usage> {
    let (status, usage) = run(command, stop)?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(usage)
}

/// Runs a command to its end. It dies with this process, and with `stop`.
pub fn run(command: &mut Command, stop: &Stop) -> Result<(ExitStatus, Usage)> {
    stop.check()?;
    child::tie(command.stdin(Stdio::null()).process_group(0));
    let started = Instant::now();
    let child = command
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let (status, mut usage) = reap(child, stop)?;
    usage.wall = started.elapsed().as_secs_f64();
    stop.check()?;
    Ok((status, usage))
}

/// Waits for a child and takes its accounting.
fn reap(child: Child, stop: &Stop) -> Result<(ExitStatus, Usage)> {
    let pid = libc::pid_t::try_from(child.id()).context("pid out of range")?;
    let leader = Pid::from_raw(pid);
    stop.started(leader);
    // Not reaped yet, so that the number stays ours until it is forgotten.
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    while waitid(Id::Pid(leader), flags) == Err(Errno::EINTR) {}
    stop.ended(leader);
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `status` and `usage` are valid for writes during the call; the
    // child is ours and nobody else waits for it.
    let reaped = unsafe { libc::wait4(pid, &mut status, 0, usage.as_mut_ptr()) };
    if reaped != pid {
        return Err(std::io::Error::last_os_error()).context("wait4");
    }
    // SAFETY: zeroed is a valid `rusage`, and wait4 filled it.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let usage = Usage {
        wall: 0.0,
        cpu: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        peak_rss: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
    };
    Ok((ExitStatus::from_raw(status), usage))
}

/// The middle value.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
