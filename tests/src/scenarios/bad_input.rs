//! Requests that are wrong: each has a clear answer, and changes nothing.

use std::time::Duration;

use anyhow::Result;
use anyhow::ensure;
use reqwest::Method;
use serde_json::Value;
use serde_json::json;

use super::Context;
use crate::api::Api;
use crate::deploy::Guest;
use crate::deploy::Node;
use crate::deploy::OPERATION;
use crate::images::Fault;
use crate::world;
use crate::world::MachineOptions;

/// Requests of operators.
pub(super) async fn requests(context: &mut Context) -> Result<()> {
    let api = context.start().await?.api()?;
    let body = json!({"driver": "fake-hardware", "name": "fake"});
    api.call(Method::POST, "/v1/nodes", Some(&body)).await?;
    let check = Check { api: &api, context };
    let provision = "/v1/nodes/fake/states/provision";

    check
        .raw(Method::POST, "/v1/nodes", "{\"driver\": ", 400, &[])
        .await?;
    check
        .json(
            Method::POST,
            "/v1/nodes",
            json!({"driver": "abacus"}),
            400,
            &["abacus"],
        )
        .await?;
    check
        .json(
            Method::PATCH,
            "/v1/nodes/fake",
            json!({"op": "add"}),
            400,
            &[],
        )
        .await?;
    check
        .json(
            Method::PUT,
            provision,
            json!({"target": "explode"}),
            400,
            &["explode"],
        )
        .await?;
    check
        .json(
            Method::PUT,
            provision,
            json!({"target": "active"}),
            400,
            &["active", "enroll"],
        )
        .await?;
    check
        .json(Method::PUT, provision, json!({}), 400, &["target"])
        .await?;
    check
        .raw(Method::PUT, provision, "not json", 400, &[])
        .await?;
    check.get("/v1/nodes/nobody", 404, &["nobody"]).await?;
    let mac = "52:54:00:00:00:99";
    check
        .get(&format!("/v1/lookup?addresses={mac}"), 404, &[])
        .await?;
    check.get("/v1/lookup", 400, &[]).await?;
    let beat = json!({"callback_url": "https://10.77.0.9:9999", "agent_version": "1"});
    let nobody = "/v1/heartbeat/00000000-0000-4000-8000-000000000000";
    check.json(Method::POST, nobody, beat, 404, &[]).await?;
    let answer = api.anonymous().send(Method::GET, "/v1/nodes", None).await?;
    ensure!(
        answer.status == 401,
        "without an account: {}, expected 401",
        answer.status
    );

    let node = api.node("fake").await?;
    ensure!(
        node["provision_state"] == "enroll",
        "the node has moved: {node}"
    );
    api.provision("fake", "manage", json!({})).await
}

/// Requests that pretend to be an agent, while the real one is at work.
pub(super) async fn tokens(context: &mut Context) -> Result<()> {
    let account = context.account.clone();
    // The agent has a plain file as its disk, which it would overwrite.
    let options = world::Options {
        server_config: "[conductor]\nautomated_clean = false\n".to_owned(),
        ..world::Options::default()
    };
    let world = context.start_with(options).await?;
    let images = world.images.clone();
    let image = world.offer_image("tiny")?;
    let bmc = world
        .add_machine("one", MachineOptions::host_agent())
        .await?;
    let node = Node::enrol(world, &bmc, "ipxe", &account).await?;
    node.make_available().await?;
    node.set_image(&image).await?;
    images.set_fault("tiny.qcow2", Some(Fault::Delay(15)));
    let extra = json!({"configdrive": Guest::random().configdrive()});
    node.api.provision(&node.uuid, "active", extra).await?;
    node.watch()
        .follow(OPERATION, |look| look.step == "deploy.write_image")
        .await?;

    let agent = node.api.anonymous();
    let mac = &bmc.machine().spec().mac;
    let second = agent.get(&format!("/v1/lookup?addresses={mac}")).await?;
    let token = second["config"]["agent_token"].as_str().unwrap_or_default();
    ensure!(
        token.is_empty() || token.starts_with("***"),
        "a second lookup gave a token"
    );

    let check = Check {
        api: &agent,
        context,
    };
    let url = node.api.node(&node.uuid).await?["driver_internal_info"]["agent_url"].clone();
    let path = format!("/v1/heartbeat/{}", node.uuid);
    let beat = |url: &Value, token: Option<&str>| {
        let mut beat = json!({"callback_url": url, "agent_version": "1"});
        if let Some(token) = token {
            beat["agent_token"] = json!(token);
        }
        beat
    };
    check
        .json(Method::POST, &path, beat(&url, None), 400, &["token"])
        .await?;
    check
        .json(
            Method::POST,
            &path,
            beat(&url, Some("wrong")),
            400,
            &["token"],
        )
        .await?;
    let elsewhere = json!("https://10.77.0.66:9999");
    check
        .json(
            Method::POST,
            &path,
            beat(&elsewhere, Some("wrong")),
            400,
            &[],
        )
        .await?;
    let after = node.api.node(&node.uuid).await?;
    ensure!(
        after["driver_internal_info"]["agent_url"] == url,
        "the callback URL has changed"
    );

    images.set_fault("tiny.qcow2", None);
    node.watch()
        .until("active", Duration::from_secs(300))
        .await
        .map(drop)
}

/// Sends what is wrong and looks at the answer.
struct Check<'a> {
    api: &'a Api,
    context: &'a Context,
}

impl Check<'_> {
    async fn get(&self, path: &str, status: u16, words: &[&str]) -> Result<()> {
        self.send(Method::GET, path, None, status, words).await
    }

    async fn json(
        &self,
        method: Method,
        path: &str,
        body: Value,
        status: u16,
        words: &[&str],
    ) -> Result<()> {
        self.send(method, path, Some(body.to_string()), status, words)
            .await
    }

    async fn raw(
        &self,
        method: Method,
        path: &str,
        body: &str,
        status: u16,
        words: &[&str],
    ) -> Result<()> {
        self.send(method, path, Some(body.to_owned()), status, words)
            .await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        status: u16,
        words: &[&str],
    ) -> Result<()> {
        let what = format!("{method} {path} {}", body.as_deref().unwrap_or_default());
        let answer = self.api.send_raw(method, path, body).await?;
        let text = answer.error_text();
        self.context
            .account
            .say(&format!("{what}\n           {} {text}", answer.status));
        ensure!(
            answer.status == status,
            "{what}: {} {text}, expected {status}",
            answer.status
        );
        ensure!(text.len() > 10, "{what}: the error says nothing: {text:?}");
        for word in words {
            ensure!(
                text.contains(word),
                "{what}: the error does not name {word:?}: {text}"
            );
        }
        Ok(())
    }
}
