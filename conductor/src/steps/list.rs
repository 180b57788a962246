//! Making the lists: order, overrides, requests.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_wire::step::Step;

use crate::config;
use crate::error::Error;
use crate::steps::Kind;
use crate::steps::Reserved;
use crate::steps::args;
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
    step.repeatable
        || Reserved::of(step).is_some()
        || REPEATABLE.contains(&(step.interface.as_str(), step.step.as_str()))
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
        if step.argsinfo.is_none() {
            step.argsinfo = undeclared(&step);
        }
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

/// What steps of a real ironic-python-agent take without saying so: there it
/// is said by the conductor's half of the interface.
fn undeclared(step: &Step) -> Option<Value> {
    let names: &[&str] = match (step.interface.as_str(), step.step.as_str()) {
        ("deploy", "write_image") => &["image_info", "configdrive"],
        ("raid", "create_configuration") => &[
            "create_root_volume",
            "create_nonroot_volumes",
            "delete_existing",
        ],
        _ => return None,
    };
    let one = |name: &&str| ((*name).to_owned(), json!({"required": false}));
    Some(Value::Object(names.iter().map(one).collect()))
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
    config.clean_step_priority_override.apply(&mut steps);
    sort(steps)
}

/// Steps that were given with their order: with what the agent and the drivers
/// say of them. Fails on a step that nobody has, and on arguments that it does
/// not take.
pub(crate) fn in_given_order(
    kind: Kind,
    given: &[Step],
    known: &[Step],
) -> Result<Vec<Step>, Error> {
    given
        .iter()
        .map(|step| {
            one_given(kind, step, known)?.ok_or_else(|| {
                Error::Invalid(format!(
                    "{} step {} is not known: the agent and the node's interfaces have {}",
                    kind.as_str(),
                    name(step),
                    names(known)
                ))
            })
        })
        .collect()
}

/// The same before there is an agent: a step that it may have passes.
pub(crate) fn check_given(kind: Kind, given: &[Step], known: &[Step]) -> Result<(), Error> {
    given
        .iter()
        .try_for_each(|step| one_given(kind, step, known).map(drop))
}

/// A given step with what is known of it; none when nobody has it.
fn one_given(kind: Kind, step: &Step, known: &[Step]) -> Result<Option<Step>, Error> {
    let reserved = Reserved::of(step).map(|reserved| reserved.checked(kind, step));
    let mut step = match (reserved.transpose()?, find(known, step)) {
        // What the children say of it is known when it is their turn.
        (reserved, _) if step.execute_on_child_nodes => reserved.unwrap_or_else(|| step.clone()),
        (Some(reserved), _) => reserved,
        (None, Some(twin)) => {
            args::check(kind, step, twin.argsinfo.as_ref())?;
            Step {
                args: step.args.clone(),
                ..twin.clone()
            }
        }
        (None, None) => return Ok(None),
    };
    // The order is the given one; a priority would only mislead.
    step.priority = 0;
    Ok(Some(step))
}

/// The deploy list: the driver's steps, changed by those of the request: the
/// same (interface, step) is replaced, others are added, priority 0 takes one
/// out. `deploy.deploy` can only be taken out. `by_agent`: steps that nobody
/// here has may be the agent's.
pub(crate) fn deploy(
    driver: Vec<Step>,
    request: &[Step],
    by_agent: bool,
) -> Result<Vec<Step>, Error> {
    let mut steps = driver;
    for (place, wanted) in request.iter().enumerate() {
        if let Some(reserved) = Reserved::of(wanted) {
            steps.push(reserved.checked(Kind::Deploy, wanted)?);
            continue;
        }
        if find(&request[..place], wanted).is_some() {
            return Err(Error::Invalid(format!(
                "deploy step {} is asked for more than once, by deploy_steps or by deploy \
                 templates",
                name(wanted)
            )));
        }
        if (wanted.interface.as_str(), wanted.step.as_str()) == ("deploy", "deploy")
            && wanted.priority != 0
        {
            return Err(Error::Invalid(
                "deploy step deploy.deploy cannot be changed, only switched off with priority 0"
                    .to_owned(),
            ));
        }
        let at = steps
            .iter()
            .position(|known| known.interface == wanted.interface && known.step == wanted.step);
        match at {
            Some(at) => {
                // What is switched off needs no arguments.
                if wanted.priority > 0 {
                    args::check(Kind::Deploy, wanted, steps[at].argsinfo.as_ref())?;
                }
                steps[at].priority = wanted.priority;
                steps[at].args.clone_from(&wanted.args);
            }
            None if by_agent || wanted.priority == 0 => steps.push(wanted.clone()),
            None => {
                return Err(Error::Invalid(format!(
                    "deploy step {} is not known: the node's interfaces have {}",
                    name(wanted),
                    names(&steps)
                )));
            }
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

/// The names of steps, for people.
pub(crate) fn names(steps: &[Step]) -> String {
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
    use super::check_given;
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
        let order = [
            lenient(&json!({"step": "erase_devices", "interface": "deploy"})),
            lenient(&json!({"step": "reboot", "interface": "power"})),
            lenient(&json!({"step": "delete_configuration", "interface": "raid"})),
            lenient(&json!({"step": "x", "interface": "bios", "execute_on_child_nodes": true})),
            lenient(&json!({"step": "erase_devices_metadata", "interface": "deploy"})),
        ]
        .map(Option::unwrap);
        let steps = in_given_order(Kind::Clean, &order, &answer()).unwrap();
        assert_eq!(names(&steps), names(&order));
        assert!(steps[0].abortable && steps[1].abortable);
        assert!(steps[3].execute_on_child_nodes);
        let odd = [lenient(&json!({"step": "polish", "interface": "deploy"})).unwrap()];
        let refused = in_given_order(Kind::Clean, &odd, &answer())
            .unwrap_err()
            .to_string();
        assert!(
            refused.starts_with("clean step deploy.polish is not known"),
            "{refused}"
        );
        check_given(Kind::Clean, &odd, &[]).unwrap();
    }

    #[test]
    fn arguments_that_a_step_does_not_take_are_refused() {
        let with = |interface: &str, step: &str, args| {
            let step = json!({"step": step, "interface": interface, "args": args});
            in_given_order(Kind::Clean, &[lenient(&step).unwrap()], &answer())
        };
        let refused = with("deploy", "erase_devices", json!({"a": 1})).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "clean step deploy.erase_devices: unknown argument \"a\", the step takes none"
        );
        assert!(with("deploy", "wait", json!({"seconds": "x"})).is_err());
        let raid = from_agent(&json!({"Generic": [
            {"step": "create_configuration", "interface": "raid"},
        ]}));
        let asked = json!({"step": "create_configuration", "interface": "raid",
            "args": {"delete_existing": true}});
        let asked = lenient(&asked).unwrap();
        assert!(
            in_given_order(Kind::Clean, &[asked], &raid).is_ok(),
            "as with Ironic"
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
        let list = deploy(driver(), &request, true).unwrap();
        assert_eq!(
            names(&list),
            ["deploy.deploy", "deploy.install", "deploy.boot"]
        );
        assert!(deploy(driver(), &[step("deploy", 50)], true).is_err());
        let off = deploy(driver(), &[step("deploy", 0)], true).unwrap();
        assert_eq!(off.len(), 2);
        let refused = deploy(driver(), &request, false).unwrap_err().to_string();
        assert!(
            refused.starts_with("deploy step deploy.install is not known"),
            "{refused}"
        );
        let twice = [step("install", 80), step("install", 70)];
        let refused = deploy(driver(), &twice, true).unwrap_err().to_string();
        assert!(refused.contains("more than once"), "{refused}");
        let reserved = [step("reboot", 90), step("reboot", 10), step("hold", 50)];
        assert_eq!(
            names(&deploy(driver(), &reserved, false).unwrap()),
            [
                "deploy.deploy",
                "deploy.reboot",
                "deploy.write_image",
                "deploy.hold",
                "deploy.boot",
                "deploy.reboot"
            ]
        );
        let text = lenient(&json!({"step": "x", "interface": "deploy", "priority": "42"}));
        assert_eq!(text.unwrap().priority, 42);
    }
}
