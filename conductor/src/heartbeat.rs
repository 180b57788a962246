//! Heartbeats and lookups: how agents become known.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_store::node::Node;
use wrought_wire::heartbeat::Heartbeat;
use wrought_wire::secret::MASK;
use wrought_wire::state::ProvisionState;

use crate::agent;
use crate::error::Error;
use crate::error::chain;
use crate::fast_track;
use crate::internal;
use crate::machine;
use crate::service::Service;
use crate::task::Task;
use crate::task::store;
use crate::token;

/// Image formats that agents may write.
const FORMATS: [&str; 4] = ["raw", "gpt", "qcow2", "iso"];

/// How long an agent's request waits for the node's lock; the agent comes again
/// by itself.
const SHORT: Duration = Duration::from_millis(500);

/// Whether a state takes note of heartbeats.
const fn listens(state: ProvisionState) -> bool {
    use ProvisionState as S;
    matches!(
        state,
        S::DeployWait
            | S::CleanWait
            | S::RescueWait
            | S::Deploying
            | S::Cleaning
            | S::Rescuing
            | S::DeployHold
            | S::CleanHold
            | S::Servicing
            | S::ServiceWait
            | S::ServiceHold
    )
}

/// What a node's record tells of its agent.
#[derive(Debug, Default, Deserialize)]
struct Known {
    agent_url: Option<String>,
    agent_secret_token: Option<String>,
    agent_verify_ca: Option<String>,
}

impl Known {
    fn of(node: &Node) -> Self {
        let text = |key| internal::text(node, key).map(str::to_owned);
        Self {
            agent_url: text(internal::AGENT_URL),
            agent_secret_token: text(internal::AGENT_TOKEN),
            agent_verify_ca: text(internal::AGENT_VERIFY_CA),
        }
    }
}

/// Whether a heartbeat is that of the node's agent.
fn check(svc: &Service, agent: &Known, beat: &Heartbeat) -> Result<(), Error> {
    let refuse = |text: String| Err(Error::Invalid(text));
    let url = beat.callback_url.as_str();
    let known = agent.agent_url.as_deref();
    if known.is_some_and(|known| known != url) {
        return refuse("Detected change in ramdisk provided \"callback_url\"".to_owned());
    }
    let given = beat.agent_token.as_ref().map_or("", |token| token.expose());
    let token = agent.agent_secret_token.as_deref().unwrap_or_default();
    if given.is_empty() || token.is_empty() || !token::same(given, token) {
        return refuse("Invalid or missing agent token received.".to_owned());
    }
    let https = url.starts_with("https://");
    if svc.config.conductor.require_agent_tls && !https {
        return refuse(format!(
            "The agent's callback_url {url:?} is not https, which this service requires."
        ));
    }
    if beat.agent_version.is_none() && beat.agent_status.is_none() {
        return refuse("The heartbeat names no agent_version.".to_owned());
    }
    let pinned = agent.agent_verify_ca.as_deref();
    let sent = beat.agent_verify_ca.as_deref();
    if pinned.is_some() && sent.is_some() && pinned != sent {
        return refuse(
            "Detected change in ramdisk provided \"agent_verify_ca\": the agent's certificate must \
             stay the same while the ramdisk runs."
                .to_owned(),
        );
    }
    if https && pinned.or(sent).is_none() {
        return refuse(
            "The agent's callback_url is https, but it sent no certificate (agent_verify_ca) by \
             which it could be known."
                .to_owned(),
        );
    }
    if known.is_some() {
        return Ok(());
    }
    // A bad address or certificate is the agent's fault and is told to it.
    let pem = pinned.or(sent);
    let probe = agent::Client::new(url, pem, wrought_wire::secret::Secret::default(), 0);
    probe
        .map(|_| ())
        .map_err(|error| Error::Invalid(chain(&error)))
}

/// Takes note of a heartbeat.
pub(crate) async fn heartbeat(
    svc: &Arc<Service>,
    uuid: Uuid,
    beat: Heartbeat,
) -> Result<(), Error> {
    svc.check_place(uuid).await?;
    let read = svc
        .store
        .glance::<Known>(uuid)
        .await
        .map_err(store("read a node"))?;
    let (state, known) = read.ok_or_else(|| Error::NodeNotFound(uuid.to_string()))?;
    if let Err(refused) = check(svc, &known, &beat) {
        tracing::warn!(node = %uuid, err = %chain(&refused), "heartbeat refused");
        // With the right token this is the agent's own fresh start: the loop
        // that watches the node finds out.
        svc.watches.wake(uuid);
        return Err(refused);
    }
    if !listens(state) && !fast_track::listens(svc, uuid, state).await? {
        tracing::debug!(node = %uuid, state = state.as_str(), "heartbeat not needed");
        return Ok(());
    }
    let now = Timestamp::now();
    if known.agent_url.is_none() {
        introduce(svc, uuid, beat, now).await?;
    }
    svc.stamps.note(uuid, now);
    if machine::is_waiting(state) {
        svc.watch(uuid);
    }
    Ok(())
}

/// The first heartbeat of a fresh agent: from now on it is known by its
/// address and certificate.
async fn introduce(
    svc: &Arc<Service>,
    uuid: Uuid,
    beat: Heartbeat,
    now: Timestamp,
) -> Result<(), Error> {
    let mut task = Task::take(svc, uuid, SHORT).await?;
    let outcome = async {
        // What was read without the lock may be old.
        check(svc, &Known::of(&task.node), &beat)?;
        let node = &mut task.node;
        internal::set(node, internal::AGENT_URL, &beat.callback_url);
        internal::set(node, internal::AGENT_VERSION, &beat.agent_version);
        internal::set(node, internal::AGENT_LAST_HEARTBEAT, now.to_string());
        if let Some(pem) = &beat.agent_verify_ca {
            internal::set(node, internal::AGENT_VERIFY_CA, pem);
        }
        task.save().await
    };
    let outcome = outcome.await;
    if outcome.is_ok() {
        tracing::info!(node = %uuid, url = beat.callback_url, "agent called");
    }
    task.release().await;
    outcome
}

/// What a lookup answers as `config`. The token is handed out once.
pub(crate) async fn lookup(svc: &Arc<Service>, uuid: Uuid) -> Result<Map<String, Value>, Error> {
    let missing = || Error::NotFound("Resource could not be found.".to_owned());
    let read = svc
        .store
        .node_by_uuid(uuid)
        .await
        .map_err(store("read a node"))?;
    let node = read.ok_or_else(missing)?;
    if !node.provision_state.allows_lookup() && !fast_track::allows_lookup(svc, &node) {
        return Err(missing());
    }
    svc.check_mine(&node)?;
    let token = match internal::text(&node, internal::AGENT_TOKEN) {
        Some(_) => {
            tracing::info!(node = %uuid, "lookup of a node whose token was handed out");
            svc.watches.looked_up(uuid);
            MASK.to_owned()
        }
        None => hand_out(svc, uuid).await?,
    };
    Ok(config(svc, &node, &token))
}

/// What agents are told, with the token.
pub(crate) fn config(svc: &Service, node: &Node, token: &str) -> Map<String, Value> {
    let redfish = node
        .interfaces
        .get("management")
        .is_some_and(|name| name == "redfish");
    let config = json!({
        "metrics": {
            "backend": "noop", "prepend_host": false, "prepend_uuid": false,
            "prepend_host_reverse": true, "global_prefix": null,
        },
        "metrics_statsd": {"statsd_host": "localhost", "statsd_port": 8125},
        "heartbeat_timeout": svc.config.conductor.heartbeat_timeout,
        "agent_containers": {
            "allow_arbitrary_containers": false, "allowed_containers": [],
            "container_steps_file": "/etc/ironic-python-agent.d/mysteps.yaml",
            "runner": "podman", "pull_options": [], "run_options": ["--rm", "--network=host"],
        },
        "agent_token": token,
        "agent_token_required": true,
        "agent_md5_checksum_enable": svc.config.conductor.allow_md5_checksum,
        "disable_deep_image_inspection": false,
        "permitted_image_formats": FORMATS,
        "agent_skip_bmc_detect": redfish,
        "enable_bios_bootloader_install": false,
        "tls_min_version": "1.3",
        "tls_cipher_suites": null,
    });
    config.as_object().cloned().unwrap_or_default()
}

async fn hand_out(svc: &Arc<Service>, uuid: Uuid) -> Result<String, Error> {
    let mut task = Task::take(svc, uuid, SHORT).await?;
    let outcome = async {
        // Two lookups may have come at the same time.
        if internal::text(&task.node, internal::AGENT_TOKEN).is_some() {
            return Ok(MASK.to_owned());
        }
        let token = token::random();
        internal::set(&mut task.node, internal::AGENT_TOKEN, &token);
        task.save().await?;
        Ok(token)
    };
    let outcome = outcome.await;
    task.release().await;
    outcome
}
