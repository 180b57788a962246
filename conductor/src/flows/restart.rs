//! The conductor was stopped while it worked on a node: goes on from the
//! record. No state is failed only because of that.

use wrought_wire::state::ProvisionState;

use crate::error::Error;
use crate::flows::adopt;
use crate::flows::clean;
use crate::flows::deploy;
use crate::flows::inspect;
use crate::flows::rescue;
use crate::flows::service;
use crate::flows::settle::settle;
use crate::flows::tear_down;
use crate::flows::unrescue;
use crate::flows::verify;
use crate::steps;
use crate::steps::Kind;
use crate::steps::engine;
use crate::task::Task;

/// Goes on.
pub(crate) async fn run(task: &mut Task) -> Result<(), Error> {
    let state = task.node.provision_state;
    tracing::info!(node = %task.node.uuid, state = state.as_str(), "going on after a restart");
    let (event, text) = match task.former() {
        Some(former) => (
            "takeover",
            format!("Node taken over from conductor {former}; going on in state {state}"),
        ),
        None => (
            "startup",
            format!("Conductor restarted; going on in state {state}"),
        ),
    };
    task.history("INFO", event, &text);
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
        ProvisionState::Servicing
            if steps::index(&task.node, Kind::Service).is_none() && !task.node_has_agent() =>
        {
            service::start(task).await
        }
        ProvisionState::Deploying => go_on(task, Kind::Deploy).await,
        ProvisionState::Cleaning => go_on(task, Kind::Clean).await,
        ProvisionState::Servicing => go_on(task, Kind::Service).await,
        ProvisionState::Adopting => adopt::run(task).await,
        ProvisionState::Rescuing => rescue::restart(task).await,
        ProvisionState::Unrescuing => unrescue::run(task).await,
        // Nobody works in any other state.
        _ => Ok(()),
    }
}

async fn go_on(task: &mut Task, kind: Kind) -> Result<(), Error> {
    let outcome = engine::restart(task, kind).await;
    settle(task, kind, outcome).await
}
