//! `enroll` → `manageable`: is the BMC there, and are its settings right?

use wrought_wire::state::PowerState;

use crate::drivers;
use crate::drivers::readings;
use crate::error::Error;
use crate::error::chain;
use crate::machine::Event;
use crate::steps;
use crate::task::Task;

/// Reads the power state by the node's settings.
pub(crate) async fn run(task: &mut Task) -> Result<(), Error> {
    match check(task).await {
        Ok(state) => {
            task.node.power_state = Some(state);
            task.node.last_error = None;
            task.transition(Event::Done, None).await.map(|_| ())
        }
        Err(error @ (Error::LeaseLost(_) | Error::Store { .. })) => Err(error),
        Err(error) => {
            task.set_error("verify", &chain(&error));
            task.transition(Event::Fail, None).await.map(|_| ())
        }
    }
}

/// Settings, then the verify steps, then the machine itself.
async fn check(task: &mut Task) -> Result<PowerState, Error> {
    let node = task.node.uuid;
    let unread = |error: Error| match error {
        Error::LeaseLost(_) | Error::Store { .. } => error,
        error => Error::Step(format!(
            "Failed to get power state for node {node}: {}",
            chain(&error)
        )),
    };
    let svc = std::sync::Arc::clone(&task.svc);
    let power = drivers::power(&task.node).map_err(unread)?;
    power.validate(&svc, &task.node).map_err(unread)?;
    steps::verify::run(task).await?;
    state(task).await.map_err(unread)
}

async fn state(task: &mut Task) -> Result<PowerState, Error> {
    let svc = std::sync::Arc::clone(&task.svc);
    let power = drivers::power(&task.node)?;
    let state = power.state(&svc, &task.node).await?;
    if state == PowerState::Error {
        return Err(Error::Step(
            "the BMC does not tell whether the machine is on".to_owned(),
        ));
    }
    observe(task).await?;
    Ok(state)
}

/// Takes note of what else the BMC tells: worth knowing, but no reason to
/// refuse the machine.
async fn observe(task: &mut Task) -> Result<(), Error> {
    let svc = std::sync::Arc::clone(&task.svc);
    let node = task.node.uuid;
    let unknown = |what: &str, error: &Error| {
        tracing::warn!(%node, err = %chain(error), "{what} unknown");
    };
    let seen = drivers::management(&task.node)?
        .observe(&svc, &task.node)
        .await;
    match seen {
        Ok(seen) => {
            let node = &mut task.node;
            if let Some(mode) = seen.boot_mode {
                node.boot_mode = Some(mode.as_str().to_owned());
            }
            node.secure_boot = seen.secure_boot.or(node.secure_boot);
            node.health = seen.health.or(node.health.take());
        }
        Err(error) => unknown("boot mode, secure boot and health", &error),
    }
    let read = readings::bios(&svc, &task.node).await;
    match read {
        Ok(Some(settings)) => task.replace_parts(settings).await?,
        Ok(None) => {}
        Err(error) => unknown("BIOS settings", &error),
    }
    let read = readings::firmware(&svc, &task.node).await;
    match read {
        Ok(Some(components)) => task.replace_parts(components).await?,
        Ok(None) => {}
        Err(error) => unknown("firmware versions", &error),
    }
    Ok(())
}
