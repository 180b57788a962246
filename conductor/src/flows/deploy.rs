//! Deploying.

use wrought_store::node::Node;
use wrought_wire::step::Step;

use crate::drivers;
use crate::error::Error;
use crate::flows::settle::settle;
use crate::internal;
use crate::machine::Event;
use crate::service::Service;
use crate::steps;
use crate::steps::Kind;
use crate::steps::engine;
use crate::steps::engine::Ran;
use crate::steps::list;
use crate::task::Task;

/// Steps of the request, kept until the list is made.
pub(crate) const REQUESTED: &str = "user_deploy_steps";

/// Begins; the node is in `deploying`.
pub(crate) async fn start(task: &mut Task) -> Result<(), Error> {
    let outcome = begin(task).await;
    settle(task, Kind::Deploy, outcome).await
}

async fn begin(task: &mut Task) -> Result<Ran, Error> {
    let list = list_of(&task.svc, &task.node)?;
    internal::clear(&mut task.node, &[REQUESTED]);
    engine::start_list(task, Kind::Deploy, &list).await
}

/// The list of a deploy as far as it can be told without the ramdisk.
pub(crate) fn list_of(svc: &Service, node: &Node) -> Result<Vec<Step>, Error> {
    let mut known = steps::known(svc, node, Kind::Deploy)?;
    let overrides = &svc.config.conductor.deploy_step_priority_override;
    overrides.apply(&mut known);
    let by_agent = drivers::deploy(node)?.cleans_by_agent();
    let requested: Vec<serde_json::Value> = internal::read(node, REQUESTED).unwrap_or_default();
    let requested = list::requested(&requested, "deploy_steps")?;
    list::deploy(known, &requested, by_agent)
}

/// All steps are done: `active`.
pub(crate) async fn finish(task: &mut Task) -> Result<(), Error> {
    task.history_of_end("INFO", "deploying", "Deployment completed successfully");
    steps::forget(&mut task.node, Kind::Deploy);
    internal::forget_agent(&mut task.node);
    internal::clear(&mut task.node, &[internal::INSTANCE]);
    task.transition(Event::Done, None).await.map(|_| ())
}
