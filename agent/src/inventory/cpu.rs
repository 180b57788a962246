//! Processors, from `/proc/cpuinfo` and sysfs.

use std::collections::BTreeSet;

use serde_json::Value;
use serde_json::json;

use super::Roots;
use crate::disk::sysfs;

/// What the inventory tells of them.
pub(super) fn read(roots: Roots<'_>) -> Value {
    let info = sysfs::listing(&roots.proc.join("cpuinfo"));
    let field = |names: &[&str]| {
        info.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            names.contains(&name.trim()).then(|| value.trim())
        })
    };
    let count = info
        .lines()
        .filter(|line| {
            line.split(':')
                .next()
                .is_some_and(|name| name.trim() == "processor")
        })
        .count();
    // x86 says flags, arm64 Features.
    let flags: Vec<&str> = field(&["flags", "Features"])
        .map(|flags| flags.split_whitespace().collect())
        .unwrap_or_default();
    json!({
        "model_name": field(&["model name", "Model"]).unwrap_or_default(),
        "frequency": frequency(roots),
        "count": count,
        "architecture": architecture(),
        "flags": flags,
        "socket_count": sockets(roots),
    })
}

/// The highest frequency in MHz with four decimals, as lscpu prints it; empty
/// where the kernel does not know it.
fn frequency(roots: Roots<'_>) -> String {
    let khz = roots
        .sys
        .join("devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    match sysfs::number(&khz) {
        Some(khz) => format!("{}.{:03}0", khz / 1000, khz % 1000),
        None => String::new(),
    }
}

fn sockets(roots: Roots<'_>) -> usize {
    let folder = roots.sys.join("devices/system/cpu");
    let packages: BTreeSet<u64> = sysfs::names(&folder)
        .iter()
        .filter(|name| name.starts_with("cpu"))
        .filter_map(|name| sysfs::number(&folder.join(name).join("topology/physical_package_id")))
        .collect();
    packages.len().max(1)
}

fn architecture() -> String {
    nix::sys::utsname::uname()
        .ok()
        .and_then(|name| name.machine().to_str().map(str::to_owned))
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}
