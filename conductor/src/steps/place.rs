//! Where a step runs.

use std::sync::Arc;

use wrought_store::node::Node;
use wrought_wire::step::Step;

use crate::drivers;
use crate::error::Error;
use crate::plugins;
use crate::plugins::Plugin;
use crate::service::Service;
use crate::steps::Kind;
use crate::steps::Outcome;
use crate::steps::Reserved;
use crate::steps::children;
use crate::steps::list;
use crate::steps::name;
use crate::task::Task;

/// Who runs a step.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// The engine itself.
    Reserved(Reserved),
    /// The node's children, each where it runs there.
    Children,
    /// An operator's executable.
    Plugin(Arc<Plugin>),
    /// The agent.
    Agent,
    /// The node's deploy interface, in the conductor.
    Driver,
}

impl Place {
    /// The place of a step of a node.
    pub(crate) fn of(svc: &Service, node: &Node, kind: Kind, step: &Step) -> Result<Self, Error> {
        if step.execute_on_child_nodes {
            return Ok(Self::Children);
        }
        if let Some(reserved) = Reserved::of(step) {
            return Ok(Self::Reserved(reserved));
        }
        let deploy = drivers::deploy(node)?;
        // What a driver has, no plug-in can take from it.
        if list::find(&deploy.steps(kind, node), step).is_none()
            && let Some(plugin) = svc.plugins.find(kind.as_str(), node, step)
        {
            return Ok(Self::Plugin(plugin));
        }
        Ok(match deploy.is_in_band(step) {
            true => Self::Agent,
            false => Self::Driver,
        })
    }

    /// Whether the agent runs it.
    pub(crate) const fn is_agent(&self) -> bool {
        matches!(self, Self::Agent)
    }

    /// Runs the step, or starts it.
    pub(crate) async fn run(
        &self,
        task: &mut Task,
        kind: Kind,
        step: &Step,
    ) -> Result<Outcome, Error> {
        match self {
            Self::Reserved(reserved) => reserved.run(task, kind, step).await,
            Self::Children => children::run(task, kind, step).await,
            Self::Plugin(plugin) => plugins::run(task, plugin, kind.as_str(), step, false).await,
            Self::Agent | Self::Driver => {
                let deploy = drivers::deploy(&task.node)?;
                deploy.run(task, kind, step).await
            }
        }
    }

    /// Asks a step that said that it must be asked how far it is.
    pub(crate) async fn poll(
        &self,
        task: &mut Task,
        kind: Kind,
        step: &Step,
    ) -> Result<Outcome, Error> {
        match self {
            Self::Plugin(plugin) => plugins::run(task, plugin, kind.as_str(), step, true).await,
            _ => Err(Error::Step(format!(
                "{} step {} on node {} has to be asked how far it is, but its plug-in is gone",
                kind.as_str(),
                name(step),
                task.node.uuid
            ))),
        }
    }
}

/// The steps of a kind that a node has without its agent: those of its driver
/// and of plug-ins.
pub(crate) fn known(svc: &Service, node: &Node, kind: Kind) -> Result<Vec<Step>, Error> {
    let mut steps = drivers::deploy(node)?.steps(kind, node);
    for step in svc.plugins.steps(kind.as_str(), node) {
        if list::find(&steps, &step).is_none() {
            steps.push(step);
        }
    }
    Ok(steps)
}
