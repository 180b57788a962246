//! `system_passthrough`: restart, switch off, and two figures.

use std::thread::available_parallelism;

use serde_json::Value;
use serde_json::json;

use super::standby::end;
use crate::command::Args;
use crate::command::CommandFailure;
use crate::command::Context;
use crate::command::Mode;
use crate::command::Registry;
use crate::shutdown::Goal;
use crate::system;

pub(super) fn register(registry: &mut Registry) {
    registry
        .blocking("system_passthrough.reboot", Mode::Async, |context, _| {
            end(context, Goal::Reboot, "restarting")
        })
        .blocking("system_passthrough.power_off", Mode::Async, |context, _| {
            end(context, Goal::PowerOff, "switching off")
        })
        .blocking("system_passthrough.get_cpu_count", Mode::Sync, cpu_count)
        .blocking(
            "system_passthrough.get_memory_info",
            Mode::Sync,
            memory_info,
        );
}

fn cpu_count(_: &Context, _: Args) -> Result<Value, CommandFailure> {
    let count = available_parallelism()
        .map_err(|error| CommandFailure::execution(format!("cannot count the CPUs: {error}")))?;
    Ok(json!({ "cpu_count": count.get() }))
}

fn memory_info(context: &Context, _: Args) -> Result<Value, CommandFailure> {
    let info = nix::sys::sysinfo::sysinfo().map_err(|error| {
        CommandFailure::execution(format!("cannot ask for the memory: {error}"))
    })?;
    Ok(json!({
        "total_bytes": info.ram_total(),
        "free_bytes": info.ram_unused(),
        "budget_bytes": context.agent.memory_budget,
        "peak_rss_bytes": system::peak_rss_bytes(),
    }))
}
