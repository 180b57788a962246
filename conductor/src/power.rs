//! Power: every action is a target that is brought about and recorded.

use std::time::Duration;

use jiff::Timestamp;
use wrought_bmc::redfish::PowerAction;
use wrought_wire::state::PowerState;
use wrought_wire::state::PowerTarget;

use crate::drivers;
use crate::error::Error;
use crate::error::chain;
use crate::internal;
use crate::relatives;
use crate::task::Task;

/// Brings the machine's power to `target` and records it. A machine that was
/// switched off has no agent any more: its token is forgotten.
pub(crate) async fn set(
    task: &mut Task,
    target: PowerTarget,
    timeout: Option<Duration>,
) -> Result<(), Error> {
    let actions: &[PowerAction] = match target {
        PowerTarget::On => &[PowerAction::On],
        PowerTarget::Off => &[PowerAction::Off],
        PowerTarget::Reboot => &[PowerAction::Off, PowerAction::On],
        PowerTarget::SoftOff => &[PowerAction::SoftOff],
        PowerTarget::SoftReboot => &[PowerAction::SoftOff, PowerAction::On],
    };
    relatives::allow(task, target).await?;
    for action in actions {
        let within = timeout.unwrap_or_else(|| patience(task, *action));
        task.confirm().await?;
        let power = drivers::power(&task.node)?;
        let state = power.reach(&task.svc, &task.node, *action, within).await?;
        if state == PowerState::Off {
            internal::forget_agent(&mut task.node);
        }
        let now = Timestamp::now().to_string();
        internal::set(&mut task.node, internal::LAST_POWER_STATE_CHANGE, now);
        task.node.power_state = Some(state);
        task.save().await?;
    }
    Ok(())
}

fn patience(task: &Task, action: PowerAction) -> Duration {
    let config = &task.svc.config.conductor;
    Duration::from_secs(match action {
        PowerAction::SoftOff => config.soft_power_off_timeout,
        _ => config.power_change_timeout,
    })
}

/// The state that a target ends in.
pub(crate) const fn goal(target: PowerTarget) -> PowerState {
    match target {
        PowerTarget::On | PowerTarget::Reboot | PowerTarget::SoftReboot => PowerState::On,
        PowerTarget::Off | PowerTarget::SoftOff => PowerState::Off,
    }
}

/// The work behind `PUT …/states/power`: never fails, the node tells.
pub(crate) async fn change(
    task: &mut Task,
    target: PowerTarget,
    timeout: Option<Duration>,
) -> Result<(), Error> {
    let outcome = set(task, target, timeout).await;
    task.node.target_power_state = None;
    match outcome {
        Ok(()) => {
            let text = format!("Power state changed to {}", goal(target));
            task.history("INFO", "power", &text);
        }
        Err(error) if error.is_lease_lost() => return Err(error),
        Err(error) => {
            let text = format!(
                "Failed to change power state to '{}' by '{target}': {}",
                goal(target),
                chain(&error)
            );
            task.set_error("power", &text);
        }
    }
    task.save().await
}
