//! `bench boot`: from power-on to the agent's first heartbeat, beside what the
//! kernel alone takes to start the first program, and the sizes of what was
//! loaded. The kernel and the initramfs are loaded by QEMU itself: firmware and
//! network are others' work.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use serde_json::Value;
use serde_json::json;

use crate::accel::Accel;
use crate::first_beat;
use crate::first_beat::Arch;
use crate::first_beat::Boot;
use crate::first_beat::Guest;
use crate::first_beat::Times;
use crate::lone::Api;
use crate::paths::Paths;

/// For one boot.
const LIMIT: Duration = Duration::from_secs(240);
/// What a machine needs, in MiB.
const MEMORY: u32 = 256;
/// Folders below `target` with ramdisks; only the first must be there.
const RAMDISKS: [&str; 4] = [
    "ramdisk",
    "ramdisk-tools",
    "ramdisk-rescue",
    "ramdisk-aarch64",
];
/// What is told of each.
const SIZES: [&str; 8] = [
    "kernel_bytes",
    "initramfs_bytes",
    "initramfs_unpacked_bytes",
    "agent_bytes",
    "uki_bytes",
    "disc_bytes",
    "modules",
    "package_bytes",
];

/// How it is run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Boots; the figures are their medians.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// One JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Measures.
pub async fn run(paths: &Paths, accel: Option<Accel>, options: &Options) -> Result<Value> {
    let kernel = paths.ramdisk_file("vmlinuz")?;
    let initramfs = paths.ramdisk_file("initramfs")?;
    let accel = Accel::choose(accel, &paths.runs.join("accel"), &kernel).await?;
    let guest = Guest {
        arch: Arch::X86_64,
        memory_mib: MEMORY,
        boot: Boot::Kernel { kernel, initramfs },
        append: String::new(),
    };
    let mut all: Vec<Times> = Vec::new();
    for _ in 0..options.runs.max(1) {
        let work = super::work(paths)?;
        let api = Api::start().await?;
        all.push(first_beat::boot(&guest, &api, accel, work.path(), LIMIT).await?);
    }
    let row = |of: fn(&Times) -> f64| figures(all.iter().map(of).collect());
    let mut sizes = serde_json::Map::new();
    for name in RAMDISKS {
        if let Some(manifest) = manifest(&paths.root.join("target").join(name))? {
            sizes.insert(name.to_owned(), manifest);
        }
    }
    Ok(json!({
        "benchmark": "boot",
        "runs": all.len(),
        "accelerator": accel.as_str(),
        "memory_mib": MEMORY,
        "seconds": {
            "kernel_to_init": row(|times| times.kernel_to_init),
            "power_on_to_init": row(|times| times.to_init),
            "init_to_heartbeat": row(|times| times.to_heartbeat - times.to_init),
            "power_on_to_heartbeat": row(|times| times.to_heartbeat),
        },
        "sizes": sizes,
    }))
}

/// Median, smallest and largest, rounded to hundredths.
fn figures(mut values: Vec<f64>) -> Value {
    values.sort_by(f64::total_cmp);
    let round = |value: f64| (value * 100.0).round() / 100.0;
    let at = |index: usize| values.get(index).copied().map(round);
    json!({
        "median": at(values.len() / 2),
        "min": at(0),
        "max": at(values.len().saturating_sub(1)),
    })
}

/// The sizes that a build wrote down; nothing where none was built.
fn manifest(folder: &Path) -> Result<Option<Value>> {
    let path = folder.join("manifest.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Ok(None);
    };
    let whole: Value =
        serde_json::from_str(&text).with_context(|| format!("parsing {}", path.display()))?;
    let told = SIZES.map(|key| (key.to_owned(), whole[key].clone()));
    Ok(Some(Value::Object(told.into_iter().collect())))
}

/// For a person.
pub fn print(found: &Value) {
    println!(
        "boot to the first heartbeat: {} boots, {}, {} MiB\n\n  seconds                    \
         median     min     max",
        found["runs"],
        found["accelerator"].as_str().unwrap_or_default(),
        found["memory_mib"]
    );
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    if let Some(rows) = found["seconds"].as_object() {
        for (name, row) in rows {
            println!(
                "  {name:<24} {:>8.2} {:>7.2} {:>7.2}",
                number(&row["median"]),
                number(&row["min"]),
                number(&row["max"])
            );
        }
    }
    println!("\n  MB                        kernel  initramfs  unpacked   agent     UKI");
    if let Some(rows) = found["sizes"].as_object() {
        for (name, row) in rows {
            let mb = |key: &str| number(&row[key]) / 1e6;
            println!(
                "  {name:<24} {:>7.2} {:>10.2} {:>9.2} {:>7.2} {:>7.2}",
                mb("kernel_bytes"),
                mb("initramfs_bytes"),
                mb("initramfs_unpacked_bytes"),
                mb("agent_bytes"),
                mb("uki_bytes")
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::figures;

    #[test]
    fn the_middle_of_five() {
        let found = figures(vec![5.0, 1.004, 3.0, 2.0, 4.0]);
        assert_eq!(found, json!({"median": 3.0, "min": 1.0, "max": 5.0}));
    }
}
