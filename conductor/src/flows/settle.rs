//! What follows when a list of steps has stopped running.

use crate::error::Error;
use crate::error::chain;
use crate::flows::clean;
use crate::flows::deploy;
use crate::flows::failure;
use crate::flows::service;
use crate::steps::Kind;
use crate::steps::engine::Ran;
use crate::steps::recover;
use crate::task::Task;

/// Finishes the flow, starts the machine anew, or fails.
pub(crate) async fn settle(
    task: &mut Task,
    kind: Kind,
    mut outcome: Result<Ran, Error>,
) -> Result<(), Error> {
    loop {
        let error = match outcome {
            Ok(Ran::Waiting) => return Ok(()),
            Ok(Ran::Finished) => {
                let done = match kind {
                    Kind::Deploy => deploy::finish(task).await,
                    Kind::Clean => clean::finish(task).await,
                    Kind::Service => service::finish(task).await,
                };
                match done {
                    Ok(()) => return Ok(()),
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        if error.is_lease_lost() || matches!(error, Error::Store { .. }) {
            return Err(error);
        }
        if !recover::agent_is_gone(&error) {
            return failure::fail(task, kind, &chain(&error)).await;
        }
        outcome = match recover::recover(task, kind, &chain(&error)).await {
            // Not again from here, whatever it was.
            Err(error) if recover::agent_is_gone(&error) => Err(Error::Step(chain(&error))),
            outcome => outcome,
        };
    }
}
