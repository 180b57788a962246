//! Steps: what can be done with a node, in lists and one at a time.

mod dispatch;
mod memory;
mod offers;

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::burnin;
use crate::command::Args;
use crate::command::CommandFailure;
use crate::command::Context;
use crate::command::Mode;
use crate::command::Outcome;
use crate::command::Registry;
use crate::deploy::failure;
use crate::deploy::node::NodeData;
use crate::deploy::raid;
use crate::deploy::state::State;
use crate::deploy::write;
use crate::deploy::write::WithConfigDrive;
use crate::disk::Disk;
use crate::disk::DiskRules;
use crate::disk::Enumerator;
use crate::disk::erase;
use crate::disk::erase::EraseOptions;
use crate::managers;
use crate::managers::FOLDER;
use crate::managers::FOLDER_PARAM;
use crate::managers::Managers;
use crate::managers::Work;
use crate::storage;
use crate::tools::System;
use dispatch::Source;
use offers::Action;
use offers::Purpose;

impl Purpose {
    /// Name of the extension and prefix of the keys.
    fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Deploy => "deploy",
            Self::Service => "service",
        }
    }

    /// Class and sentence of a step that fails as such.
    fn failed(self, details: String) -> CommandFailure {
        let (kind, message) = match self {
            Self::Clean => ("CleaningError", "Clean step failed"),
            Self::Deploy => ("DeploymentError", "Deploy step failed"),
            Self::Service => ("ServicingError", "Service step failed"),
        };
        CommandFailure::new(kind, 500, message, details)
    }
}

/// Adds `clean`, `deploy` and `service`: the lists, and running one step.
pub(super) fn register(registry: &mut Registry, state: &Arc<State>) {
    for purpose in [Purpose::Clean, Purpose::Deploy, Purpose::Service] {
        let name = purpose.name();
        let shared = Arc::clone(state);
        registry.blocking(
            &format!("{name}.get_{name}_steps"),
            Mode::Sync,
            move |context, args| {
                let node = NodeData::refresh(context, &args)?;
                let managers = managers(context, &shared);
                let managers = managers.look(&node.raw, &ports(&args), &context.cancel);
                Ok(dispatch::answer(purpose, &managers))
            },
        );
        let state = Arc::clone(state);
        registry.blocking(
            &format!("{name}.execute_{name}_step"),
            Mode::Async,
            move |context, args| execute(purpose, context, &state, args),
        );
    }
}

/// The hardware managers of this ramdisk.
fn managers<'a>(context: &Context, state: &'a State) -> &'a Managers {
    let folder = context.agent.params.get(FOLDER_PARAM).unwrap_or(FOLDER);
    state
        .managers
        .get_or_init(|| Managers::new(PathBuf::from(folder)))
}

fn ports(args: &Args) -> Value {
    args.get("ports").cloned().unwrap_or_else(|| json!([]))
}

fn execute(purpose: Purpose, context: &Context, state: &State, mut args: Args) -> Outcome {
    let node = NodeData::refresh(context, &args)?;
    let name = purpose.name();
    let ports = ports(&args);
    let managers = managers(context, state).known(&node.raw, &ports, &context.cancel);
    let versions = dispatch::versions(&managers);
    let given = args
        .get(&format!("{name}_version"))
        .filter(|version| !version.is_null());
    if let Some(given) = given
        && *given != versions
    {
        return Err(CommandFailure::version_mismatch(format!(
            "Current versions: {versions}, versions used by ironic: {given}"
        )));
    }
    let step = args.remove("step").unwrap_or_default();
    let Some(wanted) = step.get("step").and_then(Value::as_str) else {
        return Err(CommandFailure::execution(format!(
            "Malformed {name}_step, no \"step\" key: {step}"
        )));
    };
    let interface = step
        .get("interface")
        .and_then(Value::as_str)
        .unwrap_or("deploy");
    let steps = dispatch::steps(purpose, &managers);
    let found = steps
        .iter()
        .find(|listed| listed.step == wanted && listed.interface == interface);
    let Some(found) = found else {
        let known: Vec<String> = steps
            .iter()
            .map(|listed| format!("{}.{}", listed.interface, listed.step))
            .collect();
        return Err(purpose.failed(format!(
            "Error performing {name} step {wanted}: no hardware manager of this agent has the \
             step {interface}.{wanted}; there are {}",
            known.join(", ")
        )));
    };
    let mut result = match found.source {
        Source::Own(offer) => run(offer.action, context, state, &node, &step)?,
        Source::Manager(manager, own) => {
            // What it does to disks we do not know.
            state.clear();
            let work = Work {
                kind: name,
                args: step.get("args").unwrap_or(&Value::Null),
                node: &node.raw,
                ports: &ports,
            };
            let ran = managers::run(context, manager, own, &work).map_err(|error| {
                purpose.failed(format!(
                    "Error performing {name} step {wanted}: {}",
                    CommandFailure::chain(&error)
                ))
            })?;
            let mut result = Map::new();
            result.insert("step_result".to_owned(), ran.result);
            if ran.reboot {
                result.insert("reboot_requested".to_owned(), true.into());
            }
            result
        }
    };
    result.insert(format!("{name}_step"), step);
    // The same key for each purpose: clean_result, deploy_result…
    if let Some(value) = result.remove("step_result") {
        result.insert(format!("{name}_result"), value);
    }
    Ok(Value::Object(result))
}

/// The result's keys, the outcome itself under `step_result`.
fn run(
    action: Action,
    context: &Context,
    state: &State,
    node: &NodeData,
    step: &Value,
) -> Result<Map<String, Value>, CommandFailure> {
    let mut result = Map::new();
    match action {
        Action::WriteImage => {
            let no_args = Map::new();
            let args = step
                .get("args")
                .and_then(Value::as_object)
                .unwrap_or(&no_args);
            let done = write::write_image(context, state, node, args, WithConfigDrive::Yes)?;
            result = done.to_map();
            result.insert("step_result".to_owned(), Value::String(done.text()));
        }
        Action::EraseMetadata | Action::EraseAll | Action::EraseExpress => {
            state.clear();
            let rules = node.disk_rules()?;
            let mut options =
                EraseOptions::of_node(&node.driver_internal_info, context.cancel.flag());
            let disks = take_down(context, node, &rules, &mut options)?;
            let progress = |progress| context.progress.set(progress);
            let report = match action {
                Action::EraseAll => erase::erase_all(&disks, &rules, &options, &progress),
                Action::EraseExpress => erase::erase_express(&disks, &rules, &options, &progress),
                _ => erase::erase_metadata(&disks, &rules, &options, &progress),
            };
            let report = report.map_err(|error| failure::erase(&error))?;
            result.insert("step_result".to_owned(), report.to_value());
        }
        Action::RaidCreate | Action::RaidApply | Action::RaidDelete => {
            let no_args = Map::new();
            let args = step.get("args").and_then(Value::as_object);
            let args = args.unwrap_or(&no_args);
            let done = match action {
                Action::RaidCreate => raid::create(context, state, node, args)?,
                Action::RaidApply => raid::apply(context, state, node, args)?,
                _ => raid::delete(context, state, node)?,
            };
            result.insert("step_result".to_owned(), done);
        }
        Action::ErasePstore => {
            let done = memory::erase_pstore(context)?;
            tracing::info!("erase_pstore: {done}");
            result.insert("step_result".to_owned(), Value::String(done));
        }
        Action::CleanNvram => {
            let done = memory::clean_nvram(context, step)?;
            tracing::info!("clean_uefi_nvram: {done}");
            result.insert("step_result".to_owned(), Value::String(done));
        }
        Action::BurnIn(test) => {
            if test == burnin::Test::Disk {
                state.clear();
            }
            let rules = node.disk_rules()?;
            let disks = Enumerator::new(&context.agent.only_disk).disks();
            let tools = System {
                cancel: context.cancel.clone(),
            };
            let bench = burnin::Bench {
                info: &node.driver_info,
                disks: &disks,
                rules: &rules,
                tools: &tools,
                progress: &context.progress,
                cancel: &context.cancel,
            };
            let story = bench.run(test).map_err(|error| failure::burnin(&error))?;
            result.insert("step_result".to_owned(), Value::String(story));
        }
    }
    Ok(result)
}

/// Takes down what is stacked on the disks, so that they can be emptied; gives
/// all disks. Arrays of the node's own RAID stay: what lies on them is emptied
/// through them, and the options name their members, which are left alone, and
/// those disks that something still stands on.
fn take_down(
    context: &Context,
    node: &NodeData,
    rules: &DiskRules,
    options: &mut EraseOptions,
) -> Result<Vec<Disk>, CommandFailure> {
    raid::assemble(context, node)?;
    let enumerator = Enumerator::new(&context.agent.only_disk);
    let mut disks = enumerator.disks();
    disks.retain(|disk| !disk.is_virtual_media() && !rules.skips(disk));
    let guard = options.guard;
    let wipe = |path: &Path| erase::wipe_stacked(path, guard);
    let done = storage::tear_down(&disks, &raid::own_volumes(node), &wipe);
    options.kept = done.kept;
    options.stuck = done.failures;
    Ok(enumerator.disks())
}
