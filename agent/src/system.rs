//! Facts about this machine and this process.

use std::fs;
use std::time::Duration;

use nix::sys::resource::UsageWho;
use nix::sys::resource::getrusage;
use nix::time::ClockId;

/// The most memory that this process has had resident so far, in bytes.
pub fn peak_rss_bytes() -> Option<u64> {
    let kib = getrusage(UsageWho::RUSAGE_SELF).ok()?.max_rss();
    u64::try_from(kib).ok().map(|kib| kib * 1024)
}

/// Bytes of RAM that the kernel has.
pub fn total_ram_bytes() -> u64 {
    nix::sys::sysinfo::sysinfo().map_or(0, |info| info.ram_total())
}

/// Time since the kernel started, suspended time included.
pub fn since_boot() -> Duration {
    ClockId::CLOCK_BOOTTIME
        .now()
        .map_or(Duration::ZERO, Duration::from)
}

/// Reads a small text file of `/proc` or `/sys`, trimmed.
pub fn read_line(path: impl AsRef<std::path::Path>) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}
