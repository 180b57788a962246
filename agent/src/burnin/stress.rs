//! Processors and memory under load, by stress-ng.

use std::time::Duration;

use super::Bench;
use super::BurnInError;
use super::settings::Settings;

/// A day.
const DEFAULT: u64 = 86400;
/// What stress-ng may take beyond its time, to end and check.
const MORE: Duration = Duration::from_secs(300);

/// All processors, or so many.
pub(super) fn cpu(bench: &Bench<'_>, settings: Settings<'_>) -> Result<String, BurnInError> {
    let seconds = settings.seconds("agent_burnin_cpu_timeout", DEFAULT, false)?;
    let cpus = settings.number("agent_burnin_cpu_cpu", 0)?;
    let output = settings.text("agent_burnin_cpu_outputfile")?;
    let mut arguments = vec!["--cpu".to_owned(), cpus.to_string()];
    arguments.extend(common(seconds, output));
    run(bench, ("processors", "burnin_cpu"), arguments, seconds)
}

/// So much of the memory.
pub(super) fn memory(bench: &Bench<'_>, settings: Settings<'_>) -> Result<String, BurnInError> {
    let seconds = settings.seconds("agent_burnin_vm_timeout", DEFAULT, false)?;
    let bytes = settings.text("agent_burnin_vm_vm-bytes")?;
    let bytes = bytes.unwrap_or_else(|| "98%".to_owned());
    let output = settings.text("agent_burnin_vm_outputfile")?;
    let mut arguments = vec![
        "--vm".to_owned(),
        "0".to_owned(),
        "--vm-bytes".to_owned(),
        bytes,
        // What was written is read back and compared.
        "--verify".to_owned(),
    ];
    arguments.extend(common(seconds, output));
    run(bench, ("memory", "burnin_memory"), arguments, seconds)
}

fn common(seconds: u64, output: Option<String>) -> Vec<String> {
    let mut arguments = vec![
        "--timeout".to_owned(),
        seconds.to_string(),
        "--metrics-brief".to_owned(),
    ];
    if let Some(output) = output {
        arguments.extend(["--log-file".to_owned(), output]);
    }
    arguments
}

fn run(
    bench: &Bench<'_>,
    what: (&'static str, &'static str),
    arguments: Vec<String>,
    seconds: u64,
) -> Result<String, BurnInError> {
    let time = Duration::from_secs(seconds);
    bench.tool(what, "stress-ng", arguments, time + MORE, Some(time))?;
    Ok(format!("{} under load for {seconds} s: no fault", what.0))
}
