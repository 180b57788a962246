//! The server dies in the middle of a deploy, for real, more than once.

use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use reqwest::Method;
use serde_json::Value;
use serde_json::json;

use super::Context;
use crate::api::Api;
use crate::bench::serving::Wrought;
use crate::fleet::deploying::Deploying;
use crate::paths::Paths;

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
    let mut server = Wrought::new(&paths.binary("wrought")?, work.path(), false)?;
    server.start().await?;
    let api = server.api()?;
    let node = available(&api).await?;
    let mut agent = Deploying::start(WRITING).await?;
    api.provision(&node, "active", json!({})).await?;
    until(&api, &node, "the ramdisk's boot", |node| {
        node["provision_state"] == "wait call-back"
    })
    .await?;
    agent.call(&api, &node).await?;
    until(&api, &node, "write_image", |node| {
        node["provision_state"] == "wait call-back" && node["deploy_step"]["step"] == "write_image"
    })
    .await?;

    context
        .account
        .say("the agent writes; the server is killed");
    server.kill().await;
    ensure!(!agent.has_written(), "the kill came too late");
    server.start().await?;
    until(&api, &node, "tear_down_agent", |node| {
        node["deploy_step"]["step"] == "tear_down_agent"
    })
    .await?;
    ensure!(agent.has_written(), "it went on before the image was there");

    context
        .account
        .say("the conductor works; the server is killed");
    server.kill().await;
    server.start().await?;
    let active = until(&api, &node, "active", |node| {
        node["provision_state"] == "active"
    })
    .await?;
    ensure!(active["last_error"].is_null(), "{}", active["last_error"]);
    ensure!(
        active["power_state"] == "power on",
        "{}",
        active["power_state"]
    );
    ensure!(agent.is_off(), "the agent was never told to power off");
    let writes = agent.writes();
    ensure!(writes == 1, "the image was written {writes} times");
    server.stop().await;
    Ok(())
}

/// A node without automated cleaning, on its way to be deployed.
async fn available(api: &Api) -> Result<String> {
    let node = json!({
        "name": "killed", "driver": "fake-hardware", "automated_clean": false,
        "deploy_interface": "direct", "boot_interface": "fake", "management_interface": "noop",
        "instance_info": {
            "image_source": "http://192.0.2.1/image.raw", "image_disk_format": "raw",
            "image_os_hash_algo": "sha256", "image_os_hash_value": "0".repeat(64),
        },
    });
    let node = api.call(Method::POST, "/v1/nodes", Some(&node)).await?;
    let node = node["uuid"].as_str().context("a node without uuid")?;
    for (verb, state) in [("manage", "manageable"), ("provide", "available")] {
        api.provision(node, verb, json!({})).await?;
        until(api, node, state, |node| {
            node["provision_state"] == state && node["reservation"].is_null()
        })
        .await?;
    }
    Ok(node.to_owned())
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
