//! What a plug-in says of itself: `PLUGIN describe`.

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Map;
use serde_json::Value;
use wrought_plugin::Bounds;
use wrought_plugin::Priority;
use wrought_plugin::STEPS_MAX;
use wrought_plugin::TIMEOUT;
use wrought_plugin::contract;
use wrought_plugin::one_of;
use wrought_plugin::priorities;
use wrought_wire::step::Step;

use crate::plugins::process::Running;
use crate::steps::Reserved;
use crate::steps::args::TYPES;
use crate::steps::verify::VERIFY;

/// Time for the answer.
const TIME: Duration = Duration::from_secs(10);
/// Bytes of the answer.
const ANSWER: usize = 256 << 10;

/// What lists of steps are for.
const KINDS: [&str; 4] = ["clean", "deploy", "service", VERIFY];

/// An executable with its steps.
#[derive(Debug)]
pub(crate) struct Plugin {
    /// The file.
    pub(super) path: PathBuf,
    /// Its name for people.
    pub(super) name: String,
    /// Whether it is given `driver_info` with its secrets.
    pub(super) wants_driver_info: bool,
    steps: Vec<Offer>,
}

/// One step of a plug-in.
#[derive(Debug)]
struct Offer {
    step: Step,
    kinds: BTreeMap<String, i64>,
    drivers: Vec<String>,
}

impl Plugin {
    /// Its steps of a kind for nodes of a hardware type.
    pub(super) fn steps(&self, kind: &str, driver: &str) -> Vec<Step> {
        let fits = |offer: &&Offer| {
            offer.drivers.is_empty() || offer.drivers.iter().any(|known| known == driver)
        };
        let steps = self.steps.iter().filter(fits).filter_map(|offer| {
            let priority = *offer.kinds.get(kind)?;
            Some(Step {
                priority,
                ..offer.step.clone()
            })
        });
        steps.collect()
    }

    /// The names of its steps.
    pub(super) fn names(&self) -> String {
        let names = self.steps.iter().map(|offer| &offer.step);
        crate::steps::list::names(&names.cloned().collect::<Vec<_>>())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    contract: u32,
    name: Option<String>,
    #[expect(dead_code, reason = "for people who call it by hand")]
    version: Option<String>,
    #[serde(default)]
    wants: Vec<Want>,
    steps: Vec<Described>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Want {
    DriverInfo,
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
    requires_ramdisk: bool,
    #[serde(default)]
    reboot_requested: bool,
    timeout: Option<u64>,
    #[serde(default)]
    drivers: Vec<String>,
}

/// Asks the executable. What is wrong with the answer is told in one clause.
pub(super) async fn ask(path: &Path, guard: Option<&Path>) -> Result<Plugin, String> {
    let bounds = Bounds {
        line: ANSWER,
        total: ANSWER,
    };
    let answer = async {
        let mut running = Running::start(path, "describe", None, bounds, guard).await?;
        let mut text = Vec::new();
        while let Some(line) = running.line().await? {
            text.extend_from_slice(&line);
            text.push(b'\n');
        }
        let end = running.end().await?;
        match end.failure() {
            Some(failure) => Err(format!("describe {failure}")),
            None => Ok(text),
        }
    };
    let answer = tokio::time::timeout(TIME, answer).await;
    let answer =
        answer.map_err(|_| format!("describe did not end within {} s", TIME.as_secs()))??;
    read(path, &answer)
}

fn read(path: &Path, answer: &[u8]) -> Result<Plugin, String> {
    let said: Description = serde_json::from_slice(answer)
        .map_err(|error| format!("describe gave something that is not a description: {error}"))?;
    contract(said.contract, "this service")?;
    if said.steps.is_empty() || said.steps.len() > STEPS_MAX {
        return Err(format!(
            "expected 1 to {STEPS_MAX} steps, found {}",
            said.steps.len()
        ));
    }
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let mut steps: Vec<Offer> = Vec::new();
    for described in said.steps {
        let label = format!("{}.{}", described.interface, described.step);
        let offer = offer(described).map_err(|problem| format!("step {label}: {problem}"))?;
        let same = |known: &Offer| {
            (&known.step.interface, &known.step.step) == (&offer.step.interface, &offer.step.step)
        };
        if steps.iter().any(same) {
            return Err(format!("step {label} is there twice"));
        }
        steps.push(offer);
    }
    Ok(Plugin {
        path: path.to_owned(),
        name: said.name.unwrap_or_else(|| file.into_owned()),
        wants_driver_info: said.wants.contains(&Want::DriverInfo),
        steps,
    })
}

fn offer(described: Described) -> Result<Offer, String> {
    let kinds = priorities(
        &described.interface,
        &described.step,
        described.kinds,
        &described.priority,
        &KINDS,
    )?;
    if Reserved::named(&described.step).is_some() {
        return Err("its name is reserved".to_owned());
    }
    for info in described.argsinfo.values() {
        if let Some(wanted) = info.get("type").and_then(Value::as_str) {
            one_of("the type of an argument", &TYPES, wanted)?;
        }
    }
    let verifies = kinds.iter().any(|(kind, _)| kind == VERIFY);
    if verifies && !described.repeatable {
        return Err("a verify step must be repeatable".to_owned());
    }
    Ok(Offer {
        step: Step {
            interface: described.interface,
            step: described.step,
            priority: 0,
            args: Map::new(),
            abortable: described.abortable,
            reboot_requested: described.reboot_requested,
            requires_ramdisk: described.requires_ramdisk,
            argsinfo: Some(Value::Object(described.argsinfo)),
            repeatable: described.repeatable,
            timeout: Some(described.timeout.unwrap_or(TIMEOUT)),
            execute_on_child_nodes: false,
            limit_child_node_execution: Vec::new(),
        },
        kinds: kinds.into_iter().collect(),
        drivers: described.drivers,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;
    use serde_json::json;

    use super::Plugin;
    use super::read;

    fn parse(said: &Value) -> Result<Plugin, String> {
        read(
            Path::new("/etc/wrought/steps.d/fans"),
            said.to_string().as_bytes(),
        )
    }

    fn said(change: Value) -> Value {
        let mut step = json!({"interface": "management", "step": "set_fans", "kinds": ["clean"]});
        for (key, value) in change.as_object().unwrap() {
            step[key] = value.clone();
        }
        json!({"contract": 1, "steps": [step]})
    }

    #[test]
    fn a_description_becomes_steps() {
        let plugin = parse(&json!({
            "contract": 1, "name": "fans", "version": "2", "wants": ["driver_info"],
            "steps": [
                {"interface": "management", "step": "set_fans", "kinds": ["clean", "service"],
                 "priority": {"clean": 30}, "timeout": 60, "abortable": true,
                 "argsinfo": {"speed": {"description": "In percent", "type": "integer"}}},
                {"interface": "vendor", "step": "check", "kinds": ["verify"], "priority": 5,
                 "repeatable": true, "drivers": ["redfish"], "description": "Looks"},
            ],
        }))
        .unwrap();
        assert!(plugin.wants_driver_info);
        let clean = plugin.steps("clean", "fake-hardware");
        assert_eq!(clean.len(), 1);
        assert_eq!((clean[0].priority, clean[0].timeout), (30, Some(60)));
        assert!(
            clean[0].abortable && !clean[0].repeatable,
            "only when it says so"
        );
        assert_eq!(plugin.steps("service", "redfish")[0].priority, 0);
        assert_eq!(plugin.steps("verify", "redfish")[0].timeout, Some(600));
        assert!(plugin.steps("verify", "fake-hardware").is_empty());
        assert_eq!(plugin.names(), "management.set_fans, vendor.check");
    }

    #[test]
    fn what_is_wrong_with_a_description_is_said() {
        for (bad, says) in [
            (json!({}), "not a description"),
            (
                json!({"contract": 2, "steps": []}),
                "follows contract 2, this service knows 1",
            ),
            (
                json!({"contract": 1, "steps": []}),
                "expected 1 to 64 steps, found 0",
            ),
            (
                said(json!({"interface": "fans"})),
                "interface \"fans\" is none of bios",
            ),
            (said(json!({"step": "Set Fans"})), "must be of a-z"),
            (
                said(json!({"step": "reboot"})),
                "management.reboot: its name is reserved",
            ),
            (said(json!({"kinds": []})), "\"kinds\" is empty"),
            (
                said(json!({"kinds": ["polish"]})),
                "kind \"polish\" is none of clean",
            ),
            (said(json!({"kinds": ["verify"]})), "must be repeatable"),
            (said(json!({"priority": -1})), "priority -1 is below 0"),
            (
                said(json!({"argsinfo": {"a": {"type": "int"}}})),
                "type of an argument \"int\"",
            ),
            (said(json!({"colour": "red"})), "unknown field `colour`"),
        ] {
            let problem = parse(&bad).unwrap_err();
            assert!(problem.contains(says), "{problem}");
        }
    }
}
