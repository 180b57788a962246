//! `enroll` → `manageable`: is the BMC there, and are its settings right?

use wrought_wire::state::PowerState;

use crate::drivers;
use crate::error::Error;
use crate::error::chain;
use crate::machine::Event;
use crate::task::Task;

/// Reads the power state by the node's settings.
pub(crate) async fn run(task: &mut Task) -> Result<(), Error> {
    match check(task).await {
        Ok(state) => {
            task.node.power_state = Some(state);
            task.node.last_error = None;
            task.transition(Event::Done, None).await.map(|_| ())
        }
        Err(error) if error.is_lease_lost() => Err(error),
        Err(error) => {
            let text = format!(
                "Failed to get power state for node {}: {}",
                task.node.uuid,
                chain(&error)
            );
            task.set_error("verify", &text);
            task.transition(Event::Fail, None).await.map(|_| ())
        }
    }
}

async fn check(task: &mut Task) -> Result<PowerState, Error> {
    let svc = std::sync::Arc::clone(&task.svc);
    let power = drivers::power(&task.node)?;
    power.validate(&svc, &task.node)?;
    let state = power.state(&svc, &task.node).await?;
    if state == PowerState::Error {
        return Err(Error::Step(
            "the BMC does not tell whether the machine is on".to_owned(),
        ));
    }
    if let Ok(bmc) = svc.bmcs.of(&task.node)
        && task
            .node
            .interfaces
            .get("management")
            .is_some_and(|name| name == "redfish")
    {
        // Worth knowing, but no reason to refuse the machine.
        match bmc.boot_mode().await {
            Ok(Some(mode)) => task.node.boot_mode = Some(mode.as_str().to_owned()),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(node = %task.node.uuid, err = %chain(&*error), "boot mode unknown");
            }
        }
    }
    Ok(state)
}
