//! API and conductors as processes of their own.

use std::collections::BTreeSet;
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
use crate::apart::Apart;
use crate::api::Api;
use crate::paths::Paths;

/// For a node to come from one state to the next.
const PATIENCE: Duration = Duration::from_secs(60);
/// A listener for the figures of each conductor.
const METRICS: &str = "[metrics]\nlisten = \"127.0.0.1:0\"\n";
/// The most nodes that are made to have some on each conductor.
const NODES: usize = 64;

/// `wrought api` and two `wrought conductor` on PostgreSQL: nodes are shared
/// out, live their lives, and are with the other one when one goes.
pub(super) async fn lives(context: &mut Context) -> Result<()> {
    let paths = Paths::find()?;
    std::fs::create_dir_all(&paths.runs)?;
    let work = tempfile::Builder::new()
        .prefix("apart-")
        .tempdir_in(&paths.runs)?;
    let binary = paths.binary("wrought")?;
    let mut apart = Apart::start(&binary, work.path(), &["c1", "c2"], METRICS).await?;
    let api = apart.api()?;
    registered(&api).await?;
    measured(&apart).await?;

    let nodes = shared_out(&api).await?;
    context.account.say("nodes on both conductors");
    for (verb, state) in [
        ("manage", "manageable"),
        ("provide", "available"),
        ("active", "active"),
    ] {
        for (node, _) in &nodes {
            api.provision(node, verb, json!({})).await?;
        }
        for (node, _) in &nodes {
            until(&api, node, state).await?;
        }
    }
    for (node, _) in &nodes {
        let valid = api.get(&format!("/v1/nodes/{node}/validate")).await?;
        ensure!(valid["deploy"]["result"] == true, "{valid}");
    }
    let (first, host) = nodes.first().context("no nodes")?;
    let missing = api
        .send(Method::GET, "/v1/nodes/nobody/validate", None)
        .await?;
    ensure!(missing.status == 404, "{missing:?}");
    let body = json!({"target": "manage"});
    let path = format!("/v1/nodes/{first}/states/provision");
    let refused = api.send(Method::PUT, &path, Some(&body)).await?;
    ensure!(
        refused.status == 400 && refused.error_text().contains("can not be performed"),
        "the conductor's own words were lost: {refused:?}"
    );
    context.account.say("active, through calls over HTTPS");

    // One says that it goes; its nodes are with the other at once.
    let (number, other) = match host.as_str() {
        "c1" => (0, "c2"),
        _ => (1, "c1"),
    };
    apart.stop_conductor(number).await?;
    for (node, _) in &nodes {
        api.provision(node, "deleted", json!({})).await?;
    }
    for (node, _) in &nodes {
        until(&api, node, "available").await?;
        let shown = api.node(node).await?;
        ensure!(shown["conductor"] == other, "{}", shown["conductor"]);
    }
    context.account.say("undeployed by the one that stayed");

    // Without any, nothing is done and it is said why.
    apart.stop_conductor(1 - number).await?;
    let body = json!({"target": "active"});
    let refused = api.send(Method::PUT, &path, Some(&body)).await?;
    ensure!(
        refused.status == 503 && refused.error_text().contains("please retry"),
        "{refused:?}"
    );
    let shown = api.node(first).await?;
    ensure!(shown["conductor"].is_null(), "{}", shown["conductor"]);
    apart.start_conductor(number).await?;
    api.provision(first, "active", json!({})).await?;
    until(&api, first, "active").await?;
    apart.stop().await;
    Ok(())
}

/// Each conductor gives its figures, and nothing else, where it was told to.
async fn measured(apart: &Apart) -> Result<()> {
    for host in ["c1", "c2"] {
        let url = apart.metrics(host)?;
        let figures = reqwest::get(&url).await?.error_for_status()?;
        let text = figures.text().await?;
        for name in ["wrought_workers", "wrought_fenced_writes_total"] {
            ensure!(text.contains(&format!("\n{name} ")), "{host}: {text}");
        }
        let other = reqwest::get(url.replace("/metrics", "/v1/nodes")).await?;
        ensure!(other.status() == 404, "{host}: {}", other.status());
    }
    Ok(())
}

/// Both are shown, alive and with what they have.
async fn registered(api: &Api) -> Result<()> {
    let conductors = api.get("/v1/conductors?detail=true").await?;
    let list = conductors["conductors"].as_array().context("no list")?;
    ensure!(
        list.len() == 2 && list.iter().all(|conductor| conductor["alive"] == true),
        "{conductors}"
    );
    let driver = api.get("/v1/drivers/fake-hardware").await?;
    ensure!(driver["hosts"] == json!(["c1", "c2"]), "{driver}");
    ensure!(driver["default_deploy_interface"].is_string(), "{driver}");
    let properties = api.get("/v1/drivers/redfish/properties").await?;
    ensure!(properties["redfish_address"].is_string(), "{properties}");
    Ok(())
}

/// Nodes with their conductors, some on each.
async fn shared_out(api: &Api) -> Result<Vec<(String, String)>> {
    let mut nodes: Vec<(String, String)> = Vec::new();
    let body = json!({"driver": "fake-hardware", "deploy_interface": "fake"});
    loop {
        let node = api.call(Method::POST, "/v1/nodes", Some(&body)).await?;
        let text = |field: &str| node[field].as_str().map(str::to_owned);
        let conductor = text("conductor").context("a node without conductor")?;
        nodes.push((text("uuid").context("a node without uuid")?, conductor));
        let hosts: BTreeSet<&str> = nodes.iter().map(|(_, host)| host.as_str()).collect();
        if hosts.len() == 2 && nodes.len() >= 6 {
            return Ok(nodes);
        }
        ensure!(nodes.len() < NODES, "all are with {hosts:?}");
    }
}

async fn until(api: &Api, node: &str, state: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let shown = api.node(node).await?;
        if shown["provision_state"] == state && shown["reservation"] == Value::Null {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!(
                "node {node} came not to {state}: it is {}; {}",
                shown["provision_state"],
                shown["last_error"]
            );
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
