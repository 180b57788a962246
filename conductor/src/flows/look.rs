//! A look at a node in a wait state.

use crate::error::Error;
use crate::error::chain;
use crate::flows::abort;
use crate::flows::settle::settle;
use crate::internal;
use crate::machine;
use crate::steps::Kind;
use crate::steps::engine::Ran;
use crate::steps::resume;
use crate::steps::resume::Resumed;
use crate::task::Task;

/// Goes on if what is waited for has come. When the agent does not answer just
/// now the next look will tell; when it is known to be gone, it is replaced.
pub(crate) async fn look(task: &mut Task, kind: Kind, gone: bool) -> Result<(), Error> {
    let state = task.node.provision_state;
    if !machine::is_waiting(state) || Kind::of(state) != Some(kind) {
        // Somebody else was faster.
        return Ok(());
    }
    if gone
        && internal::awaits_first_call(&task.node)
        && let Err(error) = task.agent()
    {
        return settle(task, kind, Err(error)).await;
    }
    match resume::resume(task, kind).await {
        Ok(Resumed::Ran(Ran::Waiting)) => Ok(()),
        Ok(Resumed::Ran(ran)) => settle(task, kind, Ok(ran)).await,
        Ok(Resumed::Aborted(step)) => abort::stop(task, kind, Some(&step)).await,
        Err(error) => {
            let waiting = machine::is_waiting(task.node.provision_state);
            if waiting && !gone && is_passing(&error) {
                tracing::info!(node = %task.node.uuid, err = %chain(&error), "agent not reached");
                return task.reload().await;
            }
            settle(task, kind, Err(error)).await
        }
    }
}

/// Whether the agent may well answer a little later.
fn is_passing(error: &Error) -> bool {
    matches!(error, Error::Agent { source, .. } if source.is_connection() || source.is_busy())
}
