//! What a manager says of itself and of this machine: `MANAGER describe`.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_plugin::Bounds;
use wrought_plugin::CONTRACT;
use wrought_plugin::Priority;
use wrought_plugin::STEPS_MAX;
use wrought_plugin::TIMEOUT;
use wrought_plugin::contract;
use wrought_plugin::priorities;

use super::Manager;
use super::ManagerStep;
use crate::command::CancelToken;
use crate::command::CommandFailure;
use crate::tools::Limits;
use crate::tools::Next;
use crate::tools::run_lines;

/// Bounds of the answer. Vendor tools take their time to look at hardware.
const LIMITS: Limits = Limits {
    time: Duration::from_secs(30),
    output: Bounds {
        line: 256 << 10,
        total: 256 << 10,
    },
};
/// What lists of steps are for.
const KINDS: [&str; 3] = ["clean", "deploy", "service"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    contract: u32,
    name: Option<String>,
    version: String,
    support: u8,
    #[serde(default)]
    steps: Vec<Described>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    interface: String,
    step: String,
    kinds: Vec<String>,
    #[serde(default)]
    priority: Priority,
    #[expect(dead_code, reason = "for people who call it by hand")]
    description: Option<String>,
    #[serde(default)]
    argsinfo: Map<String, Value>,
    #[serde(default)]
    abortable: bool,
    #[serde(default)]
    repeatable: bool,
    #[serde(default)]
    reboot_requested: bool,
    timeout: Option<u64>,
}

/// Asks the executable. What is wrong with it is told in one clause.
pub(super) fn ask(
    path: &Path,
    node: &Value,
    ports: &Value,
    cancel: &CancelToken,
) -> Result<Manager, String> {
    let input = json!({"contract": CONTRACT, "node": node, "ports": ports});
    let mut input = input.to_string().into_bytes();
    input.push(b'\n');
    let mut answer = Vec::new();
    let mut keep = |line: &[u8]| {
        answer.extend_from_slice(line);
        answer.push(b'\n');
        Next::More
    };
    let arguments = ["describe".to_owned()];
    let end = run_lines(
        path,
        &arguments,
        Some(input),
        LIMITS,
        cancel,
        None,
        &mut keep,
    );
    let end = end.map_err(|trouble| format!("describe: {}", CommandFailure::chain(&trouble)))?;
    if !end.status.success() {
        return Err(format!(
            "describe ended with {}; {}",
            end.status, end.errors
        ));
    }
    read(path, &answer)
}

pub(super) fn read(path: &Path, answer: &[u8]) -> Result<Manager, String> {
    let said: Description = serde_json::from_slice(answer)
        .map_err(|error| format!("describe gave something that is not a description: {error}"))?;
    contract(said.contract, "this agent")?;
    if said.support > 3 {
        return Err(format!(
            "support {} is none of 0 (not for this machine), 1, 2, 3",
            said.support
        ));
    }
    if said.version.is_empty() {
        return Err("\"version\" is empty".to_owned());
    }
    if said.steps.len() > STEPS_MAX {
        return Err(format!(
            "expected at most {STEPS_MAX} steps, found {}",
            said.steps.len()
        ));
    }
    let mut steps: Vec<ManagerStep> = Vec::new();
    for described in said.steps {
        let label = format!("{}.{}", described.interface, described.step);
        let step = step(described).map_err(|problem| format!("step {label}: {problem}"))?;
        if steps
            .iter()
            .any(|known| (&known.interface, &known.step) == (&step.interface, &step.step))
        {
            return Err(format!("step {label} is there twice"));
        }
        steps.push(step);
    }
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(Manager {
        path: path.to_owned(),
        name: said.name.unwrap_or_else(|| file.into_owned()),
        version: said.version,
        support: said.support,
        steps,
    })
}

fn step(described: Described) -> Result<ManagerStep, String> {
    let priorities = priorities(
        &described.interface,
        &described.step,
        described.kinds,
        &described.priority,
        &KINDS,
    )?;
    let mut shown = Map::new();
    shown.insert("abortable".to_owned(), described.abortable.into());
    shown.insert("repeatable".to_owned(), described.repeatable.into());
    let reboot = described.reboot_requested.into();
    shown.insert("reboot_requested".to_owned(), reboot);
    if !described.argsinfo.is_empty() {
        let argsinfo = Value::Object(described.argsinfo);
        shown.insert("argsinfo".to_owned(), argsinfo);
    }
    Ok(ManagerStep {
        interface: described.interface,
        step: described.step,
        priorities,
        shown,
        timeout: described.timeout.unwrap_or(TIMEOUT),
    })
}
