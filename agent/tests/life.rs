//! One life of the agent against an API that this test plays: lookup,
//! heartbeats, commands over the pinned certificate, the end.

#![allow(clippy::unwrap_used, reason = "helpers of tests, not only tests")]

mod fake_api;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Certificate;
use serde_json::Value;
use serde_json::json;
use wrought_agent::init::banner::Board;
use wrought_agent::logging::Ring;
use wrought_agent::params::Params;
use wrought_agent::params::Words;
use wrought_agent::run::Config;
use wrought_agent::run::RunError;
use wrought_agent::run::run;
use wrought_agent::shutdown::Goal;
use wrought_wire::command::CommandStatus;

use fake_api::Api;
use fake_api::MAC;
use fake_api::NODE;
use fake_api::TOKEN;

fn config(api: &Api, more: &str) -> Config {
    let line = format!(
        "ipa-api-url=https://127.0.0.1:1,{} wrought-ca-sha256={} ipa-listen-host=127.0.0.1 \
         ipa-listen-port=0 ipa-lookup-interval=0.05 ipa-lookup-timeout=20 \
         ipa-heartbeat-interval=0.2 wrought-addresses={MAC} {more}",
        api.url, api.ca_sha256
    );
    Config {
        params: Params::from_words(Words::from_cmdline(&line)).unwrap(),
        only_disk: vec![PathBuf::from("/nonexistent")],
        is_init: false,
        ring: Arc::new(Ring::default()),
        board: Board::default(),
    }
}

/// A client as the conductor is: it trusts the certificate of the heartbeat.
struct Conductor {
    http: reqwest::Client,
    base: String,
}

impl Conductor {
    fn new(beat: &Value) -> Self {
        let pem = beat["agent_verify_ca"].as_str().unwrap();
        let certificate = Certificate::from_pem(pem.as_bytes()).unwrap();
        let http = reqwest::Client::builder()
            .tls_certs_only([certificate])
            .no_proxy()
            .build()
            .unwrap();
        Self {
            http,
            base: beat["callback_url"].as_str().unwrap().to_owned(),
        }
    }

    async fn command(&self, name: &str) -> Value {
        let url = format!("{}/v1/commands/?wait=false&agent_token={TOKEN}", self.base);
        let body = json!({"name": name, "params": {}});
        self.http
            .post(url)
            .json(&body)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap()
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let answer = self
            .http
            .get(format!("{}{path}", self.base))
            .send()
            .await
            .unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_lookup_to_power_off() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let mut api = Api::start().await;
    let agent = tokio::spawn(run(config(&api, "")));

    let beat = tokio::time::timeout(Duration::from_secs(20), api.beats.recv())
        .await
        .unwrap();
    let beat = beat.unwrap();
    assert_eq!(beat["agent_token"], TOKEN);
    assert!(
        beat["agent_version"]
            .as_str()
            .unwrap()
            .starts_with("wrought ")
    );
    assert!(
        beat["callback_url"]
            .as_str()
            .unwrap()
            .starts_with("https://127.0.0.1:")
    );
    assert_eq!(api.lookups(), 3, "two answers 404 were tried again");

    let conductor = Conductor::new(&beat);
    let (status, _) = conductor.get("/v1/commands/").await;
    assert_eq!(status, 401);
    let sync = conductor.command("standby.sync").await;
    assert_eq!(
        sync["command_status"],
        json!(CommandStatus::Succeeded),
        "{sync}"
    );
    let logs = conductor.command("log.collect_system_logs").await;
    assert!(
        logs["command_result"]["system_logs"]
            .as_str()
            .unwrap()
            .len()
            > 100
    );

    // The machine that runs this test stays on: only the agent ends.
    let off = conductor.command("standby.power_off").await;
    assert_eq!(off["command_status"], "RUNNING");
    let goal = tokio::time::timeout(Duration::from_secs(20), agent)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(goal.unwrap(), Goal::PowerOff);
    assert_eq!(api.node(), NODE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_with_another_ca_learns_nothing() {
    let api = Api::start().await;
    let other = "00".repeat(32);
    let more = format!("wrought-ca-sha256={other} ipa-lookup-timeout=0.5");
    let error = run(config(&api, &more)).await.unwrap_err();
    let RunError::Lookup(error) = error else {
        panic!("{error}")
    };
    let chain = wrought_agent::command::CommandFailure::chain(&error);
    assert!(
        chain.contains("no certificate of the server has SHA-256 0000"),
        "{chain}"
    );
    assert_eq!(api.lookups(), 0);
}
