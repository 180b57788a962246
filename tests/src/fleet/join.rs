//! Nodes on their way to `clean wait`, by the API and by the agents' protocol
//! alone, so that it works with any server that speaks both.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use reqwest::Method;
use serde_json::Value;
use serde_json::json;
use tokio::task::JoinSet;

use super::Agent;
use super::commands::Commands;
use super::commands::STEP;
use crate::api::Api;

/// Nodes on their way at the same time.
const AT_ONCE: usize = 8;
/// For one node to come from one state to the next.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Makes `count` nodes and takes each to `clean wait`, at a step that its
/// agent runs.
pub async fn join(api: &Api, commands: &Commands, count: usize) -> Result<Vec<Agent>> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..AT_ONCE.min(count) {
        let (api, commands, next) = (api.clone(), commands.clone(), Arc::clone(&next));
        workers.spawn(async move {
            let mut agents = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return Ok::<_, anyhow::Error>(agents);
                }
                let name = format!("agent-{index}");
                let agent = one(&api, &commands, &name, index);
                agents.push(agent.await.with_context(|| format!("node {name}"))?);
            }
        });
    }
    let mut agents = Vec::new();
    while let Some(worker) = workers.join_next().await {
        agents.extend(worker??);
    }
    Ok(agents)
}

async fn one(api: &Api, commands: &Commands, name: &str, index: usize) -> Result<Agent> {
    let node = json!({
        "name": name, "driver": "fake-hardware",
        "deploy_interface": "direct", "boot_interface": "fake", "management_interface": "noop",
    });
    let node = insist(api, Method::POST, "/v1/nodes", &node).await?;
    let uuid = node["uuid"].as_str().context("a node without uuid")?;
    let mac = format!(
        "52:54:01:{:02x}:{:02x}:{:02x}",
        index >> 16 & 0xff,
        index >> 8 & 0xff,
        index & 0xff
    );
    let port = json!({"node_uuid": uuid, "address": mac});
    insist(api, Method::POST, "/v1/ports", &port).await?;
    let provision = format!("/v1/nodes/{uuid}/states/provision");
    insist(api, Method::PUT, &provision, &json!({"target": "manage"})).await?;
    await_state(api, uuid, "manageable").await?;
    insist(api, Method::PUT, &provision, &json!({"target": "provide"})).await?;
    await_state(api, uuid, "clean wait").await?;
    let lookup = format!("/v1/lookup?addresses={mac}&node_uuid={uuid}");
    let found = insist(api, Method::GET, &lookup, &Value::Null).await?;
    let token = found["config"]["agent_token"]
        .as_str()
        .context("a lookup without agent_token")?;
    let agent = commands.agent(name, uuid.to_owned(), token.to_owned());
    let until = Instant::now() + PATIENCE;
    loop {
        insist(api, Method::POST, &agent.path(), &agent.heartbeat()).await?;
        for _ in 0..10 {
            let node = api.node(uuid).await?;
            if node["clean_step"]["step"] == STEP && node["provision_state"] == "clean wait" {
                return Ok(agent);
            }
            stop_at_failure(&node)?;
            tokio::time::sleep(PAUSE).await;
        }
        if Instant::now() > until {
            bail!("it was not given the step {STEP} within {PATIENCE:?}");
        }
    }
}

/// Sends a request, again while the node is locked or the server is busy.
async fn insist(api: &Api, method: Method, path: &str, body: &Value) -> Result<Value> {
    let until = Instant::now() + PATIENCE;
    loop {
        let body = (!body.is_null()).then_some(body);
        let answer = api.send(method.clone(), path, body).await?;
        match answer.status {
            200..300 => return Ok(answer.body),
            409 | 503 if Instant::now() < until => tokio::time::sleep(PAUSE).await,
            status => bail!("{method} {path} gave {status}: {}", answer.error_text()),
        }
    }
}

async fn await_state(api: &Api, node: &str, wanted: &str) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let node = api.node(node).await?;
        if node["provision_state"] == wanted && node["reservation"].is_null() {
            return Ok(());
        }
        stop_at_failure(&node)?;
        if Instant::now() > until {
            let state = &node["provision_state"];
            bail!("it did not get {wanted} within {PATIENCE:?}; it is {state}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn stop_at_failure(node: &Value) -> Result<()> {
    match node["last_error"].as_str() {
        Some(error) => bail!("it failed: {error}"),
        None => Ok(()),
    }
}
