//! The second half of an inspection: hooks, rules, and the node moves on. May
//! be done again at any time from what was stored when the data came in.

use std::sync::Arc;

use jiff::Timestamp;
use wrought_store::Inventory;
use wrought_wire::inspection::PHASE_MAIN;
use wrought_wire::state::ProvisionState;

use super::call;
use super::document;
use super::hooks;
use super::rules;
use super::rules::Level;
use super::rules::Report;
use crate::error::Error;
use crate::error::chain;
use crate::fast_track;
use crate::internal;
use crate::machine::Event;
use crate::nodes;
use crate::nodes::taken;
use crate::nodes::unwrap_taken;
use crate::steps::ramdisk;
use crate::task::Task;
use crate::task::store;
use crate::validate;

/// Event type in the history, Ironic's word.
const EVENT: &str = "introspection";
/// Rules that are applied at most.
const MOST_RULES: u32 = 1000;

/// Works on what was found; the node is in `inspecting`, or in `enroll` when it
/// was made for the machine.
pub(crate) async fn run(task: &mut Task) -> Result<(), Error> {
    let outcome = match work(task).await {
        Ok(()) => conclude(task).await.map_err(unwrap_taken),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(()) => Ok(()),
        Err(error @ (Error::LeaseLost(_) | Error::Store { .. })) => Err(error),
        Err(error) => {
            // Nothing of what hooks and rules did to the node stays.
            task.reload().await?;
            fail(
                task,
                &format!("Failed to finish inspection: {}", chain(&error)),
            )
            .await
        }
    }
}

async fn work(task: &mut Task) -> Result<(), Error> {
    let svc = Arc::clone(&task.svc);
    let node = task.node.uuid;
    let read = svc.store.inventory(node).await;
    let mut found = read
        .map_err(store("read an inventory"))?
        .ok_or_else(|| Error::Step("what the ramdisk sent is not there any more".to_owned()))?;
    // The ramdisk has said all that it knows. Saved before anything is changed
    // here, so that all changes go into the node with its next state.
    let off = svc.config.conductor.inspection.power_off;
    let managed = task.node.provision_state != ProvisionState::Enroll;
    if managed && fast_track::is_enabled(&svc, &task.node) {
        ramdisk::leave_up(task).await?;
    } else if managed {
        ramdisk::try_put_away(task, off).await?;
    }
    hooks::run(task, &mut found).await?;
    let report = apply_rules(task, &mut found).await?;
    let saved = svc.store.save_inventory(node, &found).await;
    saved.map_err(store("store an inventory"))?;
    for made in report.calls {
        let url = made.url.clone();
        if let Err(error) = call::get(made).await {
            // Whoever listens there has no say in the inspection.
            let text = format!("A rule's call of {url} failed: {}", chain(&*error));
            tracing::warn!(%node, url, err = %chain(&*error), "call of a rule failed");
            task.history("WARNING", EVENT, &text);
        }
    }
    Ok(())
}

async fn apply_rules(task: &mut Task, found: &mut Inventory) -> Result<Report, Error> {
    let svc = Arc::clone(&task.svc);
    let read = svc.store.inspection_rules(PHASE_MAIN, MOST_RULES).await;
    let rules = read.map_err(store("read inspection rules"))?;
    if rules.is_empty() {
        return Ok(Report::default());
    }
    let node = task.node.uuid;
    let ports = validate::ports(&svc, node).await?;
    let mut subject = document::subject(&task.node, &ports, found);
    let allowed = svc.config.conductor.inspection.api_call_allow.clone();
    // Pure computing, and possibly a lot of it.
    let applied = tokio::task::spawn_blocking(move || {
        let outcome = rules::apply(&rules, &mut subject, &allowed);
        (outcome, subject)
    });
    let (outcome, subject) = applied
        .await
        .map_err(|error| Error::Step(format!("the rules could not be applied: {error}")))?;
    let report = outcome.map_err(|failure| Error::Step(failure.to_string()))?;
    for (level, line) in &report.lines {
        match level {
            Level::Debug => tracing::debug!(%node, line, "inspection rule"),
            Level::Info => tracing::info!(%node, line, "inspection rule"),
            Level::Warning => tracing::warn!(%node, line, "inspection rule"),
            Level::Error => tracing::error!(%node, line, "inspection rule"),
        }
    }
    tracing::info!(%node, met = report.met, "inspection rules applied");
    for (before, made) in ports.iter().zip(subject.ports) {
        let mut port = document::port(made)?;
        if port != *before {
            svc.store.save(&mut port).await.map_err(taken)?;
        }
    }
    let (wanted, fields) = document::node(&task.node, subject.node)?;
    if !fields.is_empty() {
        let reset = fields.iter().any(|field| field == "driver");
        task.node = nodes::change(&svc.catalog, &task.node, &wanted, &fields, reset)?;
    }
    found.plugin_data = subject.plugin_data;
    Ok(report)
}

async fn conclude(task: &mut Task) -> Result<(), Error> {
    forget(task);
    internal::clear(&mut task.node, &[internal::KNOWN_DISKS]);
    task.node.last_error = None;
    task.node.inspection_finished_at = Some(Timestamp::now());
    task.history("INFO", EVENT, "Inspection completed successfully");
    if task.node.provision_state == ProvisionState::Enroll {
        return task.save().await;
    }
    task.transition(Event::Done, None).await.map(|_| ())
}

/// Ends an inspection with an error and puts the machine to rest.
pub(crate) async fn fail(task: &mut Task, text: &str) -> Result<(), Error> {
    task.set_error(EVENT, text);
    forget(task);
    if task.node.provision_state == ProvisionState::Enroll {
        return task.save().await;
    }
    task.transition(Event::Fail, None).await?;
    let off = task.svc.config.conductor.inspection.power_off
        && internal::read::<serde_json::Value>(&task.node, internal::BOOT).is_some();
    ramdisk::try_put_away(task, off).await
}

fn forget(task: &mut Task) {
    internal::clear(
        &mut task.node,
        &[
            internal::INSPECTED,
            internal::BMC_ADDRESSES,
            internal::DISCOVERED,
        ],
    );
}
