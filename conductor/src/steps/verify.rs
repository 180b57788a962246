//! Steps that check a node on its way from `enroll` to `manageable`: those of
//! its management interface and of plug-ins.

use std::sync::Arc;

use wrought_store::node::Node;
use wrought_wire::step::Step;

use crate::drivers;
use crate::error::Error;
use crate::error::chain;
use crate::plugins;
use crate::service::Service;
use crate::steps::Outcome;
use crate::steps::limits::Limit;
use crate::steps::list;
use crate::steps::name;
use crate::task::Task;

/// Word for these steps in messages and for plug-ins.
pub(crate) const VERIFY: &str = "verify";

/// Interfaces in the order in which they go first at equal priority.
const ORDER: [&str; 13] = [
    "power",
    "management",
    "firmware",
    "inspect",
    "deploy",
    "boot",
    "bios",
    "raid",
    "vendor",
    "network",
    "storage",
    "console",
    "rescue",
];

/// The steps that are switched on, in their order.
fn steps(svc: &Service, node: &Node) -> Result<Vec<Step>, Error> {
    let mut steps = drivers::management(node)?.verify_steps(node);
    for step in svc.plugins.steps(VERIFY, node) {
        if list::find(&steps, &step).is_none() {
            steps.push(step);
        }
    }
    let overrides = &svc.config.conductor.verify_step_priority_override;
    overrides.apply(&mut steps);
    Ok(sorted(steps))
}

fn sorted(mut steps: Vec<Step>) -> Vec<Step> {
    let rank = |step: &Step| ORDER.iter().position(|known| *known == step.interface);
    steps.retain(|step| step.priority > 0);
    steps.sort_by_key(|step| (-step.priority, rank(step).unwrap_or(ORDER.len())));
    steps
}

/// Runs them all; the first that fails ends it.
pub(crate) async fn run(task: &mut Task) -> Result<(), Error> {
    let svc = Arc::clone(&task.svc);
    for step in steps(&svc, &task.node)? {
        let node = task.node.uuid;
        tracing::info!(%node, step = name(&step), "verify step");
        let limit = Limit::of(&svc.config.conductor, &step);
        let ended = Limit::hold(limit, (node, VERIFY, &step), one(task, &step)).await;
        match ended {
            Ok(()) => {}
            Err(error @ (Error::LeaseLost(_) | Error::Store { .. })) => return Err(error),
            Err(error) => {
                return Err(Error::Step(format!(
                    "Node {node} failed verify step {}: {}",
                    name(&step),
                    chain(&error)
                )));
            }
        }
    }
    Ok(())
}

async fn one(task: &mut Task, step: &Step) -> Result<(), Error> {
    let svc = Arc::clone(&task.svc);
    let management = drivers::management(&task.node)?;
    let own = management.verify_steps(&task.node);
    if list::find(&own, step).is_some() {
        return management.verify(task, step).await;
    }
    let Some(plugin) = svc.plugins.find(VERIFY, &task.node, step) else {
        return Err(Error::Step("its plug-in is gone".to_owned()));
    };
    match plugins::run(task, &plugin, VERIFY, step, false).await? {
        Outcome::Done => Ok(()),
        Outcome::Restart | Outcome::Wait(_) | Outcome::Hold => Err(Error::Step(
            "it must end at once and without a restart, which a verify step has to".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::sorted;
    use crate::steps::list::lenient;
    use crate::steps::name;

    #[test]
    fn verify_steps_go_by_priority_then_interface() {
        let step = |interface: &str, priority: i64| {
            lenient(&json!({"interface": interface, "step": "x", "priority": priority})).unwrap()
        };
        let steps = sorted(vec![
            step("rescue", 5),
            step("raid", 5),
            step("power", 5),
            step("management", 0),
            step("bios", 9),
            step("deploy", 5),
        ]);
        let names: Vec<String> = steps.iter().map(name).collect();
        assert_eq!(
            names,
            ["bios.x", "power.x", "deploy.x", "raid.x", "rescue.x"]
        );
    }
}
