//! What a running process has used so far.

use std::time::Duration;

use anyhow::Context;
use anyhow::Result;

/// Processor time, user and system, of all threads (proc(5), `stat`).
pub(crate) fn cpu(pid: i32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let ticks = cpu_ticks(&text).with_context(|| format!("no times in {path}"))?;
    // SAFETY: sysconf only reads a constant of the system.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let per_second = u64::try_from(per_second).unwrap_or(100).max(1);
    Ok(Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

/// User and system ticks from a line of `/proc/PID/stat`.
fn cpu_ticks(stat: &str) -> Option<u64> {
    // The name, in parentheses, may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(number(11)? + number(12)?)
}

/// A size of `/proc/PID/status`, such as `VmRSS:` or `VmHWM:`, in bytes.
pub(crate) fn bytes(pid: i32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024)
}

/// A process and all below it.
pub(crate) fn tree(root: i32) -> Vec<i32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(path).unwrap_or_default();
        found.extend(
            children
                .split_whitespace()
                .filter_map(|pid| pid.parse::<i32>().ok()),
        );
        next += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::bytes;
    use super::cpu_ticks;
    use super::tree;

    #[test]
    fn accounts_of_this_process() {
        let me = std::process::id().cast_signed();
        assert!(bytes(me, "VmRSS:").unwrap() > 0);
        assert_eq!(tree(me).first(), Some(&me));
        let line = "1 (a) b) S 1 1 1 0 -1 4194560 1 2 3 4 70 30 0 0 20 0";
        assert_eq!(cpu_ticks(line), Some(100));
        assert_eq!(cpu_ticks("1 (a"), None);
    }
}
