//! Making the lists: order, overrides, requests.

use serde_json::Map;
use serde_json::Value;
use wrought_wire::step::Step;

use crate::config;
use crate::error::Error;
use crate::steps::Kind;
use crate::steps::name;

/// Interfaces in the order in which they go first at equal priority.
const ORDER: [&str; 7] = [
    "vendor",
    "power",
    "management",
    "firmware",
    "deploy",
    "bios",
    "raid",
];

/// In-band steps of every agent that may run again after their outcome was
/// lost, also where the agent (a real ironic-python-agent) does not say so.
const REPEATABLE: [(&str, &str); 7] = [
    ("deploy", "write_image"),
    ("deploy", "inject_files"),
    ("deploy", "erase_devices"),
    ("deploy", "erase_devices_metadata"),
    ("deploy", "erase_devices_express"),
    ("deploy", "erase_pstore"),
    ("deploy", "clean_uefi_nvram"),
];

/// Whether a step may run again after its outcome was lost.
pub(crate) fn is_repeatable(step: &Step) -> bool {
    step.repeatable || REPEATABLE.contains(&(step.interface.as_str(), step.step.as_str()))
}

/// Sorts by priority and interface, highest first; drops what is switched
/// off. Equal ones keep their order.
pub(crate) fn sort(mut steps: Vec<Step>) -> Vec<Step> {
    let rank = |step: &Step| ORDER.iter().position(|known| *known == step.interface);
    steps.retain(|step| step.priority > 0);
    steps.sort_by_key(|step| (-step.priority, rank(step).unwrap_or(ORDER.len())));
    steps
}

/// The steps of one list in the agent's answer, over all its hardware managers.
/// Of steps with the same name the one with the highest priority counts.
pub(crate) fn from_agent(answer: &Value) -> Vec<Step> {
    let mut found: Vec<Step> = Vec::new();
    let managers = answer.as_object().into_iter().flat_map(Map::values);
    for raw in managers.filter_map(Value::as_array).flatten() {
        let Some(mut step) = lenient(raw) else {
            continue;
        };
        step.requires_ramdisk = true;
        let twin = found
            .iter_mut()
            .find(|known| known.interface == step.interface && known.step == step.step);
        match twin {
            Some(known) if known.priority >= step.priority => {}
            Some(known) => *known = step,
            None => found.push(step),
        }
    }
    found
}

/// A step as others send it: nulls stand for what is absent.
pub(crate) fn lenient(raw: &Value) -> Option<Step> {
    let mut map = raw.as_object()?.clone();
    map.retain(|_, value| !value.is_null());
    if let Some(Value::String(text)) = map.get("priority") {
        let priority: i64 = text.parse().ok()?;
        map.insert("priority".to_owned(), priority.into());
    }
    serde_json::from_value(Value::Object(map)).ok()
}

/// The automated cleaning list: the agent's steps and the drivers', with the
/// priorities of the configuration.
pub(crate) fn automated_clean(steps: Vec<Step>, config: &config::Conductor) -> Vec<Step> {
    let overrides = [
        ("erase_devices", config.erase_devices_priority),
        (
            "erase_devices_metadata",
            config.erase_devices_metadata_priority,
        ),
    ];
    let mut steps = steps;
    for step in steps.iter_mut().filter(|step| step.interface == "deploy") {
        if let Some((_, Some(priority))) = overrides.iter().find(|(name, _)| *name == step.step) {
            step.priority = *priority;
        }
    }
    sort(steps)
}

/// The steps of a manual cleaning or of a service: as given, in the given order,
/// with what the agent and the drivers say of them. Fails on a step that nobody
/// has.
pub(crate) fn in_given_order(
    kind: Kind,
    given: &[Step],
    known: &[Step],
) -> Result<Vec<Step>, Error> {
    given
        .iter()
        .map(|step| {
            let twin = find(known, step).ok_or_else(|| {
                Error::Invalid(format!(
                    "{} step {} is not known: the agent and the node's interfaces have {}",
                    kind.as_str(),
                    name(step),
                    names(known)
                ))
            })?;
            let mut step = Step {
                args: step.args.clone(),
                ..twin.clone()
            };
            // The order is the given one; a priority would only mislead.
            step.priority = 0;
            Ok(step)
        })
        .collect()
}

/// The deploy list: the driver's steps, changed by those of the request: the
/// same (interface, step) is replaced, others are added, priority 0 takes one
/// out. `deploy.deploy` can only be taken out.
pub(crate) fn deploy(driver: Vec<Step>, request: &[Step]) -> Result<Vec<Step>, Error> {
    let mut steps = driver;
    for wanted in request {
        if (wanted.interface.as_str(), wanted.step.as_str()) == ("deploy", "deploy")
            && wanted.priority != 0
        {
            return Err(Error::Invalid(
                "deploy step deploy.deploy cannot be changed, only switched off with priority 0"
                    .to_owned(),
            ));
        }
        let twin = steps
            .iter_mut()
            .find(|known| known.interface == wanted.interface && known.step == wanted.step);
        match twin {
            Some(known) => {
                known.priority = wanted.priority;
                known.args.clone_from(&wanted.args);
            }
            None => steps.push(wanted.clone()),
        }
    }
    Ok(sort(steps))
}

/// Steps of a request; the API has checked their shape.
pub(crate) fn requested(raw: &[Value], what: &str) -> Result<Vec<Step>, Error> {
    raw.iter()
        .map(|raw| {
            let step = lenient(raw);
            step.ok_or_else(|| Error::Invalid(format!("{what}: {raw} is not a step")))
        })
        .collect()
}

/// The step of the same interface and name.
pub(crate) fn find<'a>(steps: &'a [Step], like: &Step) -> Option<&'a Step> {
    steps
        .iter()
        .find(|step| step.interface == like.interface && step.step == like.step)
}

fn names(steps: &[Step]) -> String {
    let names: Vec<String> = steps.iter().map(name).collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wrought_wire::step::Step;

    use super::automated_clean;
    use super::deploy;
    use super::from_agent;
    use super::in_given_order;
    use super::is_repeatable;
    use super::lenient;
    use super::name;
    use crate::config::Conductor;
    use crate::steps::Kind;

    fn names(steps: &[Step]) -> Vec<String> {
        steps.iter().map(name).collect()
    }

    /// As a real ironic-python-agent answers, two managers, with nulls.
    fn answer() -> Vec<Step> {
        from_agent(&json!({
            "ContainerHardwareManager": [
                {"step": "erase_devices", "priority": 5, "interface": "deploy", "reboot_requested": false, "abortable": true, "argsinfo": null},
            ],
            "GenericHardwareManager": [
                {"step": "erase_devices", "priority": 10, "interface": "deploy", "reboot_requested": false, "abortable": true},
                {"step": "erase_devices_metadata", "priority": 99, "interface": "deploy", "reboot_requested": false, "abortable": true},
                {"step": "delete_configuration", "priority": 10, "interface": "raid", "reboot_requested": false, "abortable": true},
                {"step": "burnin_cpu", "priority": 0, "interface": "deploy"},
            ],
        }))
    }

    #[test]
    fn automated_order_and_overrides() {
        let known = answer();
        assert_eq!(known.len(), 4);
        let plain = automated_clean(known.clone(), &Conductor::default());
        assert_eq!(
            names(&plain),
            [
                "deploy.erase_devices_metadata",
                "deploy.erase_devices",
                "raid.delete_configuration"
            ]
        );
        assert!(plain[0].requires_ramdisk && is_repeatable(&plain[0]));
        assert!(
            !is_repeatable(&plain[2]),
            "plug-ins and RAID only when they say so"
        );
        let config = Conductor {
            erase_devices_priority: Some(0),
            erase_devices_metadata_priority: Some(5),
            ..Conductor::default()
        };
        assert_eq!(
            names(&automated_clean(known, &config)),
            ["raid.delete_configuration", "deploy.erase_devices_metadata"]
        );
    }

    #[test]
    fn interface_decides_between_equals() {
        let step = |interface: &str| {
            lenient(&json!({"step": "x", "interface": interface, "priority": 7})).unwrap()
        };
        let all = [
            "raid",
            "bios",
            "deploy",
            "firmware",
            "management",
            "power",
            "vendor",
        ];
        let sorted = super::sort(all.iter().map(|name| step(name)).collect());
        let order: Vec<&str> = sorted.iter().map(|step| step.interface.as_str()).collect();
        assert_eq!(
            order,
            [
                "vendor",
                "power",
                "management",
                "firmware",
                "deploy",
                "bios",
                "raid"
            ]
        );
    }

    #[test]
    fn manual_keeps_order_and_refuses_the_unknown() {
        let given = [
            lenient(&json!({"step": "erase_devices", "interface": "deploy", "args": {"a": 1}})),
            lenient(&json!({"step": "delete_configuration", "interface": "raid"})),
            lenient(&json!({"step": "erase_devices_metadata", "interface": "deploy"})),
        ]
        .map(Option::unwrap);
        let steps = in_given_order(Kind::Clean, &given, &answer()).unwrap();
        assert_eq!(names(&steps), names(&given));
        assert!(steps[0].abortable && steps[0].args["a"] == 1);
        let odd = [lenient(&json!({"step": "polish", "interface": "deploy"})).unwrap()];
        let refused = in_given_order(Kind::Clean, &odd, &answer())
            .unwrap_err()
            .to_string();
        assert!(
            refused.starts_with("clean step deploy.polish is not known"),
            "{refused}"
        );
    }

    #[test]
    fn request_changes_the_deploy_list() {
        let step = |name: &str, priority: i64| {
            lenient(&json!({"step": name, "interface": "deploy", "priority": priority})).unwrap()
        };
        let driver = || {
            vec![
                step("deploy", 100),
                step("write_image", 80),
                step("boot", 20),
            ]
        };
        let request = [step("write_image", 0), step("install", 80)];
        let list = deploy(driver(), &request).unwrap();
        assert_eq!(
            names(&list),
            ["deploy.deploy", "deploy.install", "deploy.boot"]
        );
        assert!(deploy(driver(), &[step("deploy", 50)]).is_err());
        assert_eq!(deploy(driver(), &[step("deploy", 0)]).unwrap().len(), 2);
        let text = lenient(&json!({"step": "x", "interface": "deploy", "priority": "42"}));
        assert_eq!(text.unwrap().priority, 42);
    }
}
