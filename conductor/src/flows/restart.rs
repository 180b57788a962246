//! The conductor was stopped while it worked on a node: goes on from the
//! record. No state is failed only because of that.

use wrought_wire::state::ProvisionState;

use crate::error::Error;
use crate::flows::clean;
use crate::flows::deploy;
use crate::flows::inspect;
use crate::flows::settle::settle;
use crate::flows::tear_down;
use crate::flows::verify;
use crate::machine::Event;
use crate::steps;
use crate::steps::Kind;
use crate::steps::engine;
use crate::task::Task;

/// Goes on.
pub(crate) async fn run(task: &mut Task) -> Result<(), Error> {
    let state = task.node.provision_state;
    tracing::info!(node = %task.node.uuid, state = state.as_str(), "going on after a restart");
    task.history(
        "INFO",
        "startup",
        &format!("Conductor restarted; going on in state {state}"),
    );
    match state {
        ProvisionState::Verifying => verify::run(task).await,
        ProvisionState::Inspecting => inspect::start(task).await,
        ProvisionState::Deleting => tear_down::run(task).await,
        ProvisionState::Deploying if steps::index(&task.node, Kind::Deploy).is_none() => {
            deploy::start(task).await
        }
        ProvisionState::Cleaning
            if steps::index(&task.node, Kind::Clean).is_none() && !task.node_has_agent() =>
        {
            clean::start(task).await
        }
        ProvisionState::Deploying => go_on(task, Kind::Deploy).await,
        ProvisionState::Cleaning => go_on(task, Kind::Clean).await,
        state => {
            let text = format!(
                "The {state} state can't be resumed by conductor {}. Moving to fail state.",
                task.svc.config.host
            );
            task.set_error("startup failure", &text);
            task.transition(Event::Fail, None).await.map(|_| ())
        }
    }
}

async fn go_on(task: &mut Task, kind: Kind) -> Result<(), Error> {
    let outcome = engine::restart(task, kind).await;
    settle(task, kind, outcome).await
}
