//! Commands straight to an agent.

use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use serde_json::Value;
use serde_json::json;

use super::api;

/// Between two questions whether a command has ended.
const LOOK: Duration = Duration::from_millis(50);

/// An agent and the token it was given.
#[derive(Debug)]
pub struct Agent {
    http: reqwest::Client,
    commands: String,
    token: String,
}

impl Agent {
    /// The agent at `url`, such as `https://127.0.0.1:9999`, which was given
    /// `token`. That its certificate is pinned is shown elsewhere: a guest's
    /// names the guest's address, which is not the one it is reached by.
    pub fn new(url: &str, token: &str) -> Result<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .tls_danger_accept_invalid_certs(true)
            .timeout(Duration::from_secs(60))
            .build()?;
        Ok(Self {
            http,
            commands: format!("{url}/v1/commands/"),
            token: token.to_owned(),
        })
    }

    /// Runs a command to its end: its result, or its error.
    pub async fn command(
        &self,
        name: &str,
        params: Value,
        limit: Duration,
    ) -> Result<Result<Value, Value>> {
        let (commands, token) = (&self.commands, &self.token);
        let body = json!({"name": name, "params": params});
        let mut status: Value = self
            .http
            .post(format!("{commands}?wait=false&agent_token={token}"))
            .json(&body)
            .send()
            .await
            .with_context(|| format!("sending {name}"))?
            .json()
            .await?;
        let id = status["id"].as_str().unwrap_or_default().to_owned();
        let until = tokio::time::Instant::now() + limit;
        while status["command_status"] == "RUNNING" {
            ensure!(
                tokio::time::Instant::now() < until,
                "{name} has not ended within {} s: {status}",
                limit.as_secs()
            );
            tokio::time::sleep(LOOK).await;
            status = self
                .http
                .get(format!("{commands}{id}?agent_token={token}"))
                .send()
                .await?
                .json()
                .await?;
        }
        if status["command_status"] == "SUCCEEDED" {
            return Ok(Ok(status["command_result"].take()));
        }
        if status["command_error"].is_null() {
            bail!("{name}: an answer that is none: {status}");
        }
        Ok(Err(status["command_error"].take()))
    }

    /// Runs one clean step with a node; its result, or the error's details.
    pub async fn clean(
        &self,
        interface: &str,
        step: &str,
        node: &Value,
        limit: Duration,
    ) -> Result<Result<Value, String>> {
        let params = json!({
            "step": {"interface": interface, "step": step, "args": {}},
            "node": node,
            "ports": [],
        });
        let done = self
            .command("clean.execute_clean_step", params, limit)
            .await?;
        Ok(match done {
            Ok(mut result) => Ok(result["clean_result"].take()),
            Err(error) => Err(error["details"]
                .as_str()
                .map_or_else(|| error.to_string(), str::to_owned)),
        })
    }
}

/// The node for commands.
pub fn node(properties: Value, driver_internal_info: Value) -> Value {
    json!({
        "uuid": api::NODE,
        "properties": properties,
        "instance_info": {},
        "driver_info": {},
        "driver_internal_info": driver_internal_info,
    })
}
