//! Rescue: a ramdisk with a login takes the instance's place, and gets the
//! password that the request brought.

use serde_json::Value;
use wrought_store::journal::Phase;
use wrought_store::node::Node;
use wrought_wire::secret::Secret;
use wrought_wire::state::ProvisionState;

use crate::config;
use crate::crypt;
use crate::drivers;
use crate::drivers::rescue::Rescued;
use crate::error::Error;
use crate::error::chain;
use crate::flows::failure;
use crate::internal;
use crate::machine::Event;
use crate::steps::recover;
use crate::task::Row;
use crate::task::Task;

/// Event type in the history, Ironic's word; kind of the journal's rows.
pub(crate) const RESCUE: &str = "rescue";
/// Key of `instance_info` with the password itself.
pub(crate) const PASSWORD: &str = "rescue_password";
/// Key of `instance_info` with its hash, in the form of crypt(5).
pub(crate) const HASHED_PASSWORD: &str = "hashed_rescue_password";

/// Readies the record for a rescue that was asked for.
pub(crate) fn prepare(
    node: &mut Node,
    password: Option<&Secret>,
    config: &config::Conductor,
) -> Result<(), Error> {
    let password = password.map_or("", Secret::expose);
    if password.trim().is_empty() {
        return Err(Error::Invalid(
            "A non-empty \"rescue_password\" is required when setting target provision state to \
             rescue"
                .to_owned(),
        ));
    }
    forget_password(node);
    let hashed = crypt::hashed(password, config.rescue_password_hash_algorithm)?;
    let info = &mut node.instance_info;
    info.insert(HASHED_PASSWORD.to_owned(), Value::String(hashed));
    if !config.require_rescue_password_hashed {
        info.insert(PASSWORD.to_owned(), Value::String(password.to_owned()));
    }
    internal::forget_agent(node);
    internal::clear(
        node,
        &[
            internal::RECOVERIES,
            internal::RESCUED,
            internal::SERVICE_RAMDISK,
        ],
    );
    Ok(())
}

/// Removes the password in both forms.
pub(crate) fn forget_password(node: &mut Node) {
    node.instance_info.remove(PASSWORD);
    node.instance_info.remove(HASHED_PASSWORD);
}

/// Begins, or begins anew after a restart; the node is in `rescuing`.
pub(crate) async fn start(task: &mut Task) -> Result<(), Error> {
    let outcome = boot(task).await;
    settle(task, outcome).await
}

async fn boot(task: &mut Task) -> Result<(), Error> {
    note(task, "rescue.boot", Phase::Started, None);
    task.save().await?;
    match drivers::rescue(&task.node)?.rescue(task).await? {
        Rescued::Finished => {
            note(task, "rescue.boot", Phase::Succeeded, None);
            finish(task).await
        }
        Rescued::Waiting => {
            note(task, "rescue.boot", Phase::Waiting, None);
            task.transition(Event::Wait, None).await.map(|_| ())
        }
    }
}

/// Goes on after a restart: the ramdisk may have had its password already.
pub(crate) async fn restart(task: &mut Task) -> Result<(), Error> {
    if internal::read(&task.node, internal::RESCUED) == Some(true) {
        return finish(task).await;
    }
    start(task).await
}

/// Looks whether the ramdisk has called, and gives it the password. An agent
/// that does not answer just now is asked again; one that is known to be gone
/// is replaced.
pub(crate) async fn look(task: &mut Task, gone: bool) -> Result<(), Error> {
    let lost = gone && internal::awaits_first_call(&task.node);
    if task.node.provision_state != ProvisionState::RescueWait || !task.node_has_agent() && !lost {
        // Somebody else was faster.
        return Ok(());
    }
    let outcome = if gone {
        boot_again(task).await
    } else {
        hand_over(task).await
    };
    match outcome {
        Err(error) if !gone && is_passing(&error) => {
            tracing::info!(node = %task.node.uuid, err = %chain(&error), "agent not reached");
            task.reload().await
        }
        outcome => settle(task, outcome).await,
    }
}

/// Whether the agent may well answer a little later.
fn is_passing(error: &Error) -> bool {
    let busy = matches!(error, Error::Agent { source, .. } if source.is_busy());
    busy || recover::agent_is_gone(error)
}

async fn hand_over(task: &mut Task) -> Result<(), Error> {
    note(task, "rescue.finalize_rescue", Phase::Started, None);
    task.save().await?;
    drivers::rescue(&task.node)?.finalize(task).await?;
    note(task, "rescue.finalize_rescue", Phase::Succeeded, None);
    internal::set(&mut task.node, internal::RESCUED, true);
    task.transition(Event::Resume, None).await?;
    finish(task).await
}

/// The agent went away before it was known to have the password: the ramdisk is
/// booted anew, a few times.
async fn boot_again(task: &mut Task) -> Result<(), Error> {
    let tried = internal::count(&task.node, internal::RECOVERIES);
    if tried >= u64::from(task.svc.config.conductor.step_recoveries) {
        return Err(Error::Step(format!(
            "the rescue ramdisk of node {} was lost {} times before it had its password",
            task.node.uuid,
            tried + 1
        )));
    }
    internal::set(&mut task.node, internal::RECOVERIES, tried + 1);
    task.history(
        "WARNING",
        RESCUE,
        "The rescue ramdisk's agent was lost; the machine is started anew",
    );
    task.transition(Event::Resume, None).await?;
    boot(task).await
}

/// The ramdisk has its password and is its user's from now on.
async fn finish(task: &mut Task) -> Result<(), Error> {
    let node = &mut task.node;
    forget_password(node);
    internal::forget_agent(node);
    internal::clear(node, &[internal::RECOVERIES, internal::RESCUED]);
    task.history_of_end("INFO", RESCUE, "Rescue completed successfully");
    task.transition(Event::Done, None).await.map(|_| ())
}

async fn settle(task: &mut Task, outcome: Result<(), Error>) -> Result<(), Error> {
    match outcome {
        Err(error @ (Error::LeaseLost(_) | Error::Store { .. })) => Err(error),
        Err(error) => fail(task, &format!("Failed to rescue: {}", chain(&error))).await,
        Ok(()) => Ok(()),
    }
}

/// No ramdisk has called for too long.
pub(crate) async fn timed_out(task: &mut Task) -> Result<(), Error> {
    if task.node.provision_state != ProvisionState::RescueWait {
        return Ok(());
    }
    fail(
        task,
        "Timeout reached while waiting for rescue ramdisk callback for node",
    )
    .await
}

/// Ends a rescue with an error and puts the machine to rest.
pub(crate) async fn fail(task: &mut Task, text: &str) -> Result<(), Error> {
    note(task, "rescue.boot", Phase::Failed, Some(text.to_owned()));
    task.set_error(RESCUE, text);
    end_badly(task);
    task.transition(Event::Fail, None).await?;
    put_away(task).await.or_else(|error| {
        if error.is_lease_lost() {
            return Err(error);
        }
        tracing::warn!(node = %task.node.uuid, err = %chain(&error), "clean-up incomplete");
        Ok(())
    })
}

fn end_badly(task: &mut Task) {
    let node = &mut task.node;
    forget_password(node);
    internal::clear(
        node,
        &[internal::AGENT_URL, internal::RECOVERIES, internal::RESCUED],
    );
}

/// The part of an abort that the request waits for.
pub(crate) async fn abort(task: &mut Task) -> Result<(), Error> {
    end_badly(task);
    task.node.last_error = None;
    task.history(
        "INFO",
        RESCUE,
        "By request, the rescue operation was aborted.",
    );
    task.transition(Event::Abort, None).await.map(|_| ())
}

async fn put_away(task: &mut Task) -> Result<(), Error> {
    drivers::rescue(&task.node)?.clean_up(task).await?;
    task.save().await
}

/// The rest of an abort: the machine is switched off and nothing is on offer to
/// it any more.
pub(crate) async fn clean_up(task: &mut Task) -> Result<(), Error> {
    let Err(error) = put_away(task).await else {
        return Ok(());
    };
    if error.is_lease_lost() {
        return Err(error);
    }
    let text = format!(
        "Failed to put away the rescue ramdisk of node {} after an abort: {}",
        task.node.uuid,
        chain(&error)
    );
    task.set_error(RESCUE, &text);
    failure::hold_back(&mut task.node, failure::RESCUE_ABORT_FAILURE, &text);
    task.save().await
}

/// Adds a row to the journal; the caller saves.
fn note(task: &mut Task, step: &str, phase: Phase, detail: Option<String>) {
    let tried = internal::count(&task.node, internal::RECOVERIES);
    task.journal(Row {
        kind: RESCUE,
        index: 0,
        step,
        attempt: u32::try_from(tried + 1).unwrap_or(u32::MAX),
        phase,
        detail,
    });
}
