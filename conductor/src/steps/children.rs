//! Steps that run on the children of a node, one child after the other, each
//! under its own lock.

use std::pin::Pin;
use std::sync::Arc;

use wrought_store::NodeQuery;
use wrought_store::node::Node;
use wrought_wire::step::Step;

use crate::drivers;
use crate::error::Error;
use crate::error::chain;
use crate::steps::Kind;
use crate::steps::Outcome;
use crate::steps::Place;
use crate::steps::Reserved;
use crate::steps::args;
use crate::steps::known;
use crate::steps::list;
use crate::steps::name;
use crate::task::Task;
use crate::task::store;

/// Runs the step on all children, or on those that it names. Boxed, because a
/// child's step runs the way that led here.
pub(super) fn run<'a>(
    task: &'a mut Task,
    kind: Kind,
    step: &'a Step,
) -> Pin<Box<dyn Future<Output = Result<Outcome, Error>> + Send + 'a>> {
    Box::pin(on_all(task, kind, step))
}

async fn on_all(task: &mut Task, kind: Kind, step: &Step) -> Result<Outcome, Error> {
    let children = chosen(task, kind, step).await?;
    let bare = Step {
        execute_on_child_nodes: false,
        limit_child_node_execution: Vec::new(),
        ..step.clone()
    };
    let svc = Arc::clone(&task.svc);
    let parent = task.node.uuid;
    for child in children {
        let failed = |why: String| {
            Error::Step(format!(
                "{} step {} on child node {} of node {parent} failed: {why}",
                kind.as_str(),
                name(&bare),
                child.uuid
            ))
        };
        // The parent's own lock may have run out while the last child was at
        // work.
        task.confirm().await?;
        // Also another conductor's: what counts is the lock.
        let taken = Task::take_any(&svc, child.uuid, svc.config.pace.lock_wait).await;
        let mut child_task = match taken {
            Ok(taken) => taken,
            Err(Error::Locked { host, .. }) => {
                return Err(failed(format!("it is locked by host {host}")));
            }
            Err(error @ Error::Store { .. }) => return Err(error),
            Err(error) => return Err(failed(chain(&error))),
        };
        let fence = child_task.fence();
        let ended = fence
            .guard(on_one(&mut child_task, kind, &bare, parent))
            .await;
        child_task.release().await;
        match ended {
            Ok(()) => {}
            Err(error @ Error::Store { .. }) => return Err(error),
            // Also the loss of the child's lock: ours still holds.
            Err(error) => return Err(failed(chain(&error))),
        }
    }
    Ok(Outcome::Done)
}

/// The children, in the order in which they were made.
async fn chosen(task: &mut Task, kind: Kind, step: &Step) -> Result<Vec<Node>, Error> {
    let parent = task.node.uuid;
    let query = NodeQuery {
        parent_node: Some(parent.to_string()),
        ..NodeQuery::default()
    };
    let children = task.svc.store.list_nodes(&query).await;
    let children = children.map_err(store("list child nodes"))?;
    let limit = &step.limit_child_node_execution;
    let is = |child: &Node, wanted: &str| {
        child.uuid.to_string() == wanted || child.name.as_deref() == Some(wanted)
    };
    if let Some(odd) = limit
        .iter()
        .find(|wanted| !children.iter().any(|child| is(child, wanted)))
    {
        return Err(Error::Step(format!(
            "{} step {}: limit_child_node_execution names {odd:?}, which is no child of node \
             {parent}",
            kind.as_str(),
            name(step)
        )));
    }
    if children.is_empty() {
        let text = format!("Step {} is for child nodes, and there are none", name(step));
        task.history("WARNING", kind.event_type(), &text);
    }
    let wanted = |child: &Node| limit.is_empty() || limit.iter().any(|wanted| is(child, wanted));
    Ok(children.into_iter().filter(wanted).collect())
}

async fn on_one(
    child: &mut Task,
    kind: Kind,
    step: &Step,
    parent: uuid::Uuid,
) -> Result<(), Error> {
    let svc = Arc::clone(&child.svc);
    let own = known(&svc, &child.node, kind)?;
    let step = match (Reserved::of(step), list::find(&own, step)) {
        (Some(reserved), _) => reserved.checked(kind, step)?,
        (None, Some(twin)) => {
            args::check(kind, step, twin.argsinfo.as_ref())?;
            Step {
                args: step.args.clone(),
                ..twin.clone()
            }
        }
        // Its agent may have it.
        (None, None) if drivers::deploy(&child.node)?.is_in_band(step) => step.clone(),
        (None, None) => {
            return Err(Error::Step(format!(
                "its interfaces have no such step: they have {}",
                list::names(&own)
            )));
        }
    };
    let place = Place::of(&svc, &child.node, kind, &step)?;
    let outcome = place.run(child, kind, &step).await?;
    match outcome {
        Outcome::Done | Outcome::Restart => {}
        Outcome::Wait(_) if svc.config.conductor.permit_child_node_step_async_result => {
            tracing::info!(node = %child.node.uuid, step = name(&step), "step left to the child");
        }
        Outcome::Wait(_) | Outcome::Hold => {
            return Err(Error::Step(
                "it does not end at once, which a step on child nodes must \
                 (permit_child_node_step_async_result allows it)"
                    .to_owned(),
            ));
        }
    }
    let text = format!("Step {} was run for parent node {parent}", name(&step));
    child.history("INFO", kind.event_type(), &text);
    child.save().await
}
