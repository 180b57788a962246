//! `standby`: the end of a deploy.

use serde_json::Value;

use crate::command::Args;
use crate::command::CommandFailure;
use crate::command::Context;
use crate::command::Mode;
use crate::command::Registry;
use crate::shutdown::Goal;

pub(super) fn register(registry: &mut Registry) {
    registry
        .blocking("standby.sync", Mode::Sync, sync)
        .blocking("standby.run_image", Mode::Async, |context, _| {
            end(context, Goal::Reboot, "restarting")
        })
        .blocking("standby.power_off", Mode::Async, |context, _| {
            end(context, Goal::PowerOff, "switching off")
        });
}

fn sync(_: &Context, _: Args) -> Result<Value, CommandFailure> {
    nix::unistd::sync();
    Ok(Value::Null)
}

/// Flushes everything and asks the main loop for the end, which comes a
/// moment later, so that the answer and a heartbeat can still leave.
pub(super) fn end(context: &Context, goal: Goal, text: &str) -> Result<Value, CommandFailure> {
    nix::unistd::sync();
    context.agent.shutdown.request(goal);
    Ok(Value::String(text.to_owned()))
}
