//! Steps: what can be done with a node, in lists and one at a time.

use std::sync::Arc;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::command::Args;
use crate::command::CommandFailure;
use crate::command::Context;
use crate::command::HARDWARE_MANAGER;
use crate::command::HARDWARE_MANAGER_VERSION;
use crate::command::Mode;
use crate::command::Outcome;
use crate::command::Registry;
use crate::deploy::failure;
use crate::deploy::node::NodeData;
use crate::deploy::state::State;
use crate::deploy::write;
use crate::deploy::write::WithConfigDrive;
use crate::disk::Enumerator;
use crate::disk::erase;
use crate::disk::erase::EraseOptions;

/// What steps are run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Clean,
    Deploy,
    Service,
}

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

/// What our steps do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    WriteImage,
    EraseMetadata,
    EraseAll,
}

/// One step with its priority for each purpose; `None` where it is not
/// offered. 0 runs only when it is asked for.
struct Offer {
    name: &'static str,
    action: Action,
    clean: Option<u32>,
    deploy: Option<u32>,
    service: Option<u32>,
}

const OFFERS: [Offer; 3] = [
    Offer {
        name: "erase_devices",
        action: Action::EraseAll,
        clean: Some(10),
        deploy: None,
        service: None,
    },
    Offer {
        name: "erase_devices_metadata",
        action: Action::EraseMetadata,
        clean: Some(99),
        deploy: Some(0),
        service: None,
    },
    Offer {
        name: "write_image",
        action: Action::WriteImage,
        clean: None,
        deploy: Some(0),
        service: Some(0),
    },
];

impl Offer {
    fn priority(&self, purpose: Purpose) -> Option<u32> {
        match purpose {
            Purpose::Clean => self.clean,
            Purpose::Deploy => self.deploy,
            Purpose::Service => self.service,
        }
    }

    fn describe(&self, purpose: Purpose) -> Option<Value> {
        let priority = self.priority(purpose)?;
        let mut step = json!({
            "step": self.name,
            "priority": priority,
            "interface": "deploy",
            "reboot_requested": false,
            "abortable": purpose == Purpose::Clean,
            "repeatable": true,
        });
        if self.action == Action::WriteImage {
            step["argsinfo"] = json!({
                "image_info": {
                    "description": "The image: id, urls, disk_format and its checksum.",
                    "required": true,
                },
                "configdrive": {
                    "description": "The config drive: an object with meta_data, user_data, network_data and vendor_data, Base64 of an image, or a URL.",
                    "required": false,
                },
            });
        }
        Some(step)
    }
}

/// Adds `clean`, `deploy` and `service`: the lists, and running one step.
pub(super) fn register(registry: &mut Registry, state: &Arc<State>) {
    for purpose in [Purpose::Clean, Purpose::Deploy, Purpose::Service] {
        let name = purpose.name();
        registry.blocking(
            &format!("{name}.get_{name}_steps"),
            Mode::Sync,
            move |context, args| {
                NodeData::refresh(context, &args)?;
                Ok(list(purpose))
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

fn versions() -> Value {
    json!({ HARDWARE_MANAGER: HARDWARE_MANAGER_VERSION })
}

fn list(purpose: Purpose) -> Value {
    let steps: Vec<Value> = OFFERS
        .iter()
        .filter_map(|offer| offer.describe(purpose))
        .collect();
    json!({
        format!("{}_steps", purpose.name()): { HARDWARE_MANAGER: steps },
        "hardware_manager_version": versions(),
    })
}

fn execute(purpose: Purpose, context: &Context, state: &State, mut args: Args) -> Outcome {
    let node = NodeData::refresh(context, &args)?;
    let name = purpose.name();
    let given = args
        .get(&format!("{name}_version"))
        .filter(|version| !version.is_null());
    if given.is_some_and(|given| *given != versions()) {
        let given = given.cloned().unwrap_or_default();
        return Err(CommandFailure::version_mismatch(format!(
            "Current versions: {}, versions used by ironic: {given}",
            versions()
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
    let offers = || {
        OFFERS
            .iter()
            .filter(|offer| offer.priority(purpose).is_some())
    };
    let offer = offers().find(|offer| offer.name == wanted && interface == "deploy");
    let Some(offer) = offer else {
        let known: Vec<&str> = offers().map(|offer| offer.name).collect();
        return Err(purpose.failed(format!(
            "Error performing {name} step {wanted}: no hardware manager of this agent has the \
             step {interface}.{wanted}; there are {} (interface deploy)",
            known.join(", ")
        )));
    };
    let mut result = run(offer.action, context, state, &node, &step)?;
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
        Action::EraseMetadata | Action::EraseAll => {
            state.clear();
            let rules = node.disk_rules()?;
            let options = EraseOptions::of_node(&node.driver_internal_info, context.cancel.flag());
            let disks = Enumerator::new(&context.agent.only_disk).disks();
            let progress = |progress| context.progress.set(progress);
            let report = if action == Action::EraseAll {
                erase::erase_all(&disks, &rules, &options, &progress)
            } else {
                erase::erase_metadata(&disks, &rules, &options, &progress)
            };
            let report = report.map_err(|error| failure::erase(&error))?;
            result.insert("step_result".to_owned(), report.to_value());
        }
    }
    Ok(result)
}
