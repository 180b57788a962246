//! Booting the deploy ramdisk, and putting away what that took.

use wrought_store::node::Node;
use wrought_wire::state::PowerState;
use wrought_wire::state::PowerTarget;

use crate::drivers;
use crate::error::Error;
use crate::error::chain;
use crate::fast_track;
use crate::internal;
use crate::power;
use crate::steps::Then;
use crate::steps::Wait;
use crate::task::Task;

/// Makes the ramdisk run: as it is, where it is up and the node is on the fast
/// track; else by a start of the machine.
pub(crate) async fn bring_up(task: &mut Task) -> Result<(), Error> {
    if !Box::pin(fast_track::is_up(task)).await? {
        return Box::pin(boot(task)).await;
    }
    tracing::info!(node = %task.node.uuid, "the running ramdisk is used");
    let text = "The ramdisk that runs already is used, without a restart (fast track)";
    task.history("INFO", "fast track", text);
    // A restart that a step asks for brings the ramdisk up again.
    internal::set(&mut task.node, internal::FAST_TRACK, true);
    Ok(())
}

/// Takes the boot artefacts back and leaves the ramdisk running for what comes
/// next.
pub(crate) async fn leave_up(task: &mut Task) -> Result<(), Error> {
    task.confirm().await?;
    if let Err(error) = drivers::boot(&task.node)?.clean_up_ramdisk(task).await {
        lenient(task, "withdraw the boot artefacts", error)?;
    }
    task.save().await
}

/// Switches the machine off, sets it up for the ramdisk, switches it on. May
/// be done again at any time.
pub(crate) async fn boot(task: &mut Task) -> Result<(), Error> {
    power::set(task, PowerTarget::Off, None).await?;
    // Also where the power interface cannot tell off from on.
    internal::forget_agent(&mut task.node);
    internal::clear(&mut task.node, &[internal::FAST_TRACK]);
    drivers::boot(&task.node)?.prepare_ramdisk(task).await?;
    task.save().await?;
    power::set(task, PowerTarget::On, None).await
}

/// Whether the machine is set up for the ramdisk.
pub(crate) fn is_on_offer(node: &Node) -> bool {
    let info = &node.driver_internal_info;
    info.contains_key(internal::BOOT) || info.contains_key(internal::FAST_TRACK)
}

/// Sees to it that there is an agent for the step at the list's place. Gives
/// what has to be waited for when none has called since the machine was last
/// started; one that is not coming up already is booted.
pub(crate) async fn ready(task: &mut Task) -> Result<Option<Wait>, Error> {
    if task.node_has_agent() {
        return Ok(None);
    }
    let coming = is_on_offer(&task.node) && task.node.power_state == Some(PowerState::On);
    if !coming {
        boot(task).await?;
    }
    Ok(Some(Wait::for_agent(Then::Repeat)))
}

/// Takes everything back that was put up for the ramdisk, and switches the
/// machine off when `off` says so.
pub(crate) async fn put_away(task: &mut Task, off: bool) -> Result<(), Error> {
    if off {
        power::set(task, PowerTarget::Off, None).await?;
    }
    task.confirm().await?;
    drivers::boot(&task.node)?.clean_up_ramdisk(task).await?;
    internal::forget_agent(&mut task.node);
    task.save().await
}

/// The same after a failure, where nothing can be done about another one.
pub(crate) async fn try_put_away(task: &mut Task, off: bool) -> Result<(), Error> {
    // Off and artefacts are independent: one may work where the other fails.
    if off && let Err(error) = power::set(task, PowerTarget::Off, None).await {
        lenient(task, "switch the machine off", error)?;
    }
    if let Err(error) = put_away(task, false).await {
        lenient(task, "withdraw the boot artefacts", error)?;
    }
    Ok(())
}

fn lenient(task: &Task, what: &str, error: Error) -> Result<(), Error> {
    if error.is_lease_lost() {
        return Err(error);
    }
    tracing::warn!(node = %task.node.uuid, what, err = %chain(&error), "clean-up incomplete");
    Ok(())
}
