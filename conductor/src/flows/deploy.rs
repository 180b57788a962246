//! Deploying.

use wrought_store::node::Node;

use crate::drivers;
use crate::error::Error;
use crate::flows::settle::settle;
use crate::internal;
use crate::machine::Event;
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
    let list = list_of(&task.node)?;
    internal::clear(&mut task.node, &[REQUESTED]);
    engine::start_list(task, Kind::Deploy, &list).await
}

/// The list of a deploy as far as it can be told without the ramdisk.
pub(crate) fn list_of(node: &Node) -> Result<Vec<wrought_wire::step::Step>, Error> {
    let driver = drivers::deploy(node)?.steps(Kind::Deploy, node);
    let requested: Vec<serde_json::Value> = internal::read(node, REQUESTED).unwrap_or_default();
    list::deploy(driver, &list::requested(&requested, "deploy_steps")?)
}

/// All steps are done: `active`.
pub(crate) async fn finish(task: &mut Task) -> Result<(), Error> {
    task.history_of_end("INFO", "deploying", "Deployment completed successfully");
    steps::forget(&mut task.node, Kind::Deploy);
    internal::forget_agent(&mut task.node);
    internal::clear(&mut task.node, &[internal::INSTANCE]);
    task.transition(Event::Done, None).await.map(|_| ())
}
