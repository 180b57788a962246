//! Disks and network under load, by fio.

use std::thread;
use std::time::Duration;
use std::time::Instant;

use super::Bench;
use super::BurnInError;
use super::settings::Settings;
use super::smart;
use crate::disk::Disk;
use crate::disk::listing;
use crate::tools::ToolError;

/// Disks may take weeks; longer than this nobody waits.
const MOST: Duration = Duration::from_secs(30 * 86400);
/// What a test may take beyond its time.
const MORE: Duration = Duration::from_secs(600);
/// Streams between two machines, each with a port of its own from
/// [`PORT`] on.
const STREAMS: u32 = 16;
const PORT: u32 = 9000;
/// How long a partner is waited for, and the pause between two tries.
const PARTNER: Duration = Duration::from_secs(15 * 60);
const AGAIN: Duration = Duration::from_secs(10);
/// fio's exit status when a job had errors: the reader's, while nobody listens.
const JOB_FAILED: i32 = 1;

const CONFIG: &str = "agent_burnin_fio_network_config";
const CONFIG_SHAPE: &str =
    "an object with role (writer or reader) and partner (the other machine's address)";

/// Overwrites all disks that may be, reads back what was written and compares.
pub(super) fn disks(bench: &Bench<'_>, settings: Settings<'_>) -> Result<String, BurnInError> {
    let seconds = settings.seconds("agent_burnin_fio_disk_runtime", 0, true)?;
    let loops = settings.number("agent_burnin_fio_disk_loops", 4)?.max(1);
    let output = settings.text("agent_burnin_fio_disk_outputfile")?;
    let smart_test = settings.flag("agent_burnin_fio_disk_smart_test")?;
    let disks: Vec<&Disk> = bench
        .disks
        .iter()
        .filter(|disk| !disk.read_only && disk.in_use.is_none() && !disk.is_virtual_media())
        .filter(|disk| !bench.rules.skips(disk))
        .collect();
    if disks.is_empty() {
        return Err(BurnInError::NoDisks(listing(bench.disks)));
    }
    let mut arguments: Vec<String> = [
        "--rw=readwrite",
        "--bs=4k",
        "--direct=1",
        "--ioengine=libaio",
        "--iodepth=32",
        "--verify=crc32c",
        "--continue_on_error=verify",
    ]
    .map(str::to_owned)
    .into();
    arguments.push(format!("--loops={loops}"));
    if seconds > 0 {
        arguments.push(format!("--runtime={seconds}"));
        arguments.push("--time_based".to_owned());
    }
    if let Some(output) = output {
        arguments.push("--output-format=json".to_owned());
        arguments.push(format!("--output={output}"));
    }
    for disk in &disks {
        arguments.push(format!("--name={}", disk.name));
        arguments.push(format!("--filename={}", disk.path.display()));
    }
    let expected = (seconds > 0).then(|| Duration::from_secs(seconds));
    let limit = expected.map_or(MOST, |expected| expected + MORE);
    let what = ("disks", "burnin_disk");
    bench.tool(what, "fio", arguments, limit, expected)?;
    if smart_test {
        smart::long_test(bench, &disks)?;
    }
    let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
    Ok(format!("disks {}: no fault", names.join(", ")))
}

/// Sends to a partner and receives from it, or the other way round first.
pub(super) fn network(bench: &Bench<'_>, settings: Settings<'_>) -> Result<String, BurnInError> {
    let seconds = settings.seconds("agent_burnin_fio_network_runtime", 21600, false)?;
    let output = settings.text("agent_burnin_fio_network_outputfile")?;
    let config = settings.object(CONFIG, CONFIG_SHAPE)?;
    let text = |key: &str| config.get(key).and_then(serde_json::Value::as_str);
    let host = |text: &&str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || ".:-_".contains(c);
        !text.is_empty() && !text.starts_with('-') && text.chars().all(fits)
    };
    let partner = text("partner").filter(host);
    let writes_first = match text("role") {
        Some("writer") => Some(true),
        Some("reader") => Some(false),
        _ => None,
    };
    let (Some(partner), Some(writes_first)) = (partner, writes_first) else {
        return Err(BurnInError::Setting {
            key: CONFIG,
            expected: CONFIG_SHAPE,
            found: config.into(),
        });
    };
    for writes in [writes_first, !writes_first] {
        one_way(bench, partner, writes, seconds, output.as_deref())?;
    }
    Ok(format!(
        "network with {partner} for {seconds} s each way: no fault"
    ))
}

fn one_way(
    bench: &Bench<'_>,
    partner: &str,
    writes: bool,
    seconds: u64,
    output: Option<&str>,
) -> Result<(), BurnInError> {
    let mut arguments: Vec<String> = vec![
        "--ioengine=net".to_owned(),
        format!("--port={PORT}"),
        "--fill_device=1".to_owned(),
        "--group_reporting".to_owned(),
        "--gtod_reduce=1".to_owned(),
        format!("--numjobs={STREAMS}"),
    ];
    let role = if writes { "writer" } else { "reader" };
    if let Some(output) = output {
        arguments.push("--output-format=json".to_owned());
        arguments.push(format!("--output={output}.{role}"));
    }
    arguments.push(format!("--name={role}"));
    if writes {
        arguments.extend([
            "--rw=write".to_owned(),
            format!("--runtime={seconds}"),
            "--time_based".to_owned(),
            "--listen".to_owned(),
        ]);
    } else {
        arguments.extend(["--rw=read".to_owned(), format!("--hostname={partner}")]);
    }
    let time = Duration::from_secs(seconds);
    let what = ("network", "burnin_network");
    let start = Instant::now();
    loop {
        let limit = time + PARTNER + MORE;
        match bench.tool(what, "fio", arguments.clone(), limit, Some(time)) {
            // The reader is refused as long as nobody listens.
            Err(BurnInError::Tool {
                source:
                    ToolError::Failed {
                        code: Some(JOB_FAILED | 16),
                        ref said,
                        ..
                    },
                ..
            }) if !writes && said.contains("onnect") => {
                if start.elapsed() >= PARTNER {
                    return Err(BurnInError::NoPartner {
                        partner: partner.to_owned(),
                        waited: PARTNER,
                    });
                }
                tracing::info!("burn-in: {partner} does not listen yet, it is tried again");
                if bench.cancel.is_cancelled() {
                    return Err(BurnInError::Stopped);
                }
                thread::sleep(AGAIN);
            }
            ended => return ended.map(drop),
        }
    }
}
