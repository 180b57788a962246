//! The server dies in the middle of a deploy, for real, more than once.

use std::time::Duration;
use std::time::Instant;

use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use serde_json::Value;

use super::Context;
use crate::api::Api;
use crate::kill::flows;
use crate::kill::flows::Flow;
use crate::kill::site::Site;
use crate::paths::Paths;
use crate::sim::Habits;
use crate::sim::Machine;
use crate::sim::Sim;
use crate::sim::log::Verdict;

/// How long the simulated agent writes.
const WRITING: Duration = Duration::from_secs(6);
/// For the node to come from one point to the next.
const PATIENCE: Duration = Duration::from_secs(90);

/// `wrought serve` gets SIGKILL while the agent writes the image, again while
/// the conductor itself is at a step, and is started again each time: the node
/// gets active, and the image was written once.
pub(super) async fn deploy(context: &mut Context) -> Result<()> {
    let paths = Paths::find()?;
    std::fs::create_dir_all(&paths.runs)?;
    let work = tempfile::Builder::new()
        .prefix("killed-")
        .tempdir_in(&paths.runs)?;
    let mut site = Site::serve(&paths.binary("wrought")?, work.path())?;
    site.start().await?;
    let api = site.api()?;
    let sim = Sim::start()?;
    sim.surround(&site.boots(), Some(site.ca()))?;
    let takes = [("deploy.write_image".to_owned(), WRITING)];
    let habits = Habits {
        takes: takes.into(),
        ..Habits::default()
    };
    let machine = sim.machine("killed", habits);
    let info = sim.driver_info(&machine);
    let node = flows::enrol(&api, machine.name(), info, machine.mac()).await?;
    for (verb, state) in [("manage", "manageable"), ("provide", "available")] {
        flows::go(&api, &node, verb).await?;
        until(&api, &node, state, |node| {
            node["provision_state"] == state && node["reservation"].is_null()
        })
        .await?;
    }
    Flow::Deploy.begin(&api, &node).await?;
    until(&api, &node, "write_image", |node| {
        node["provision_state"] == "wait call-back" && node["deploy_step"]["step"] == "write_image"
    })
    .await?;

    let server = site.conductor("one")?;
    context
        .account
        .say("the agent writes; the server is killed");
    server.kill().await;
    ensure!(!has_written(&machine), "the kill came too late");
    server.start().await?;
    until(&api, &node, "tear_down_agent", |node| {
        node["deploy_step"]["step"] == "tear_down_agent"
    })
    .await?;
    ensure!(
        has_written(&machine),
        "it went on before the image was there"
    );

    context
        .account
        .say("the conductor works; the server is killed");
    server.kill().await;
    server.start().await?;
    let active = until(&api, &node, "active", |node| {
        node["provision_state"] == "active" && node["reservation"].is_null()
    })
    .await?;
    ensure!(active["last_error"].is_null(), "{}", active["last_error"]);
    ensure!(
        active["power_state"] == "power on",
        "{}",
        active["power_state"]
    );
    let off = taken(&machine, "standby.power_off");
    ensure!(!off.is_empty(), "the agent was never told to power off");
    let writes = taken(&machine, "deploy.execute_deploy_step").len();
    ensure!(writes == 1, "the image was written {writes} times");
    site.stop().await;
    Ok(())
}

/// When the agent took commands of that name.
fn taken(machine: &Machine, name: &str) -> Vec<jiff::Timestamp> {
    let orders = machine.log().orders.into_iter();
    orders
        .filter(|order| order.name == name && order.verdict == Verdict::Taken)
        .map(|order| order.at)
        .collect()
}

fn has_written(machine: &Machine) -> bool {
    let begun = taken(machine, "deploy.execute_deploy_step");
    let lasted = begun
        .first()
        .map(|at| jiff::Timestamp::now().duration_since(*at));
    lasted.is_some_and(|lasted| lasted.unsigned_abs() >= WRITING)
}

async fn until(api: &Api, node: &str, what: &str, come: impl Fn(&Value) -> bool) -> Result<Value> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let shown = api.node(node).await?;
        if come(&shown) {
            return Ok(shown);
        }
        if Instant::now() > deadline || shown["provision_state"] == "deploy failed" {
            let (state, step) = (&shown["provision_state"], &shown["deploy_step"]["step"]);
            bail!(
                "the node came not to {what}: it is {state}, at step {step}; {}",
                shown["last_error"]
            );
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
