//! The command side of all simulated agents on one port: the first part of the
//! path tells which agent is meant. Each has one cleaning step to offer and,
//! once it was given it, is at it for ever.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use anyhow::Context;
use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::get;
use serde_json::Value;
use serde_json::json;
use tokio::net::TcpListener;
use uuid::Uuid;

use super::Agent;
use super::tls;

/// The step that every agent offers.
pub const STEP: &str = "erase_devices_metadata";

#[derive(Debug)]
struct Shared {
    /// Agents that were given the step.
    busy: Mutex<HashSet<String>>,
    asked: AtomicU64,
    steps: Value,
    idle_list: Bytes,
    busy_list: Bytes,
    running: Value,
}

/// The listener with what it has seen.
#[derive(Debug, Clone)]
pub struct Commands {
    shared: Arc<Shared>,
    address: SocketAddr,
    certificate: Option<String>,
}

impl Commands {
    /// Serves on a free port of loopback, with a self-signed certificate as
    /// agents have it when `https` is wanted.
    pub async fn start(https: bool) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("listening for the simulated agents")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new());
        let router = Router::new()
            .route("/{agent}/v1/commands/", get(list).post(run))
            .route("/{agent}/v1/commands", get(list).post(run))
            .with_state(Arc::clone(&shared));
        let certificate = if https {
            let (listener, pem) = tls::Listener::new(listener)?;
            tokio::spawn(async move { axum::serve(listener, router).await });
            Some(pem)
        } else {
            tokio::spawn(async move { axum::serve(listener, router).await });
            None
        };
        Ok(Self {
            shared,
            address,
            certificate,
        })
    }

    /// The agent of a node, by the name of its place here.
    pub fn agent(&self, place: &str, node: String, token: String) -> Agent {
        let scheme = if self.certificate.is_some() {
            "https"
        } else {
            "http"
        };
        Agent {
            node,
            token,
            url: format!("{scheme}://{}/{place}", self.address),
            certificate: self.certificate.clone(),
        }
    }

    /// Lets agents at these places be at the step already.
    pub fn adopt(&self, places: impl IntoIterator<Item = String>) {
        self.shared.busy().extend(places);
    }

    /// Requests that came so far.
    pub fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn new() -> Self {
        let step = json!({
            "step": STEP, "priority": 99, "interface": "deploy",
            "reboot_requested": false, "abortable": true,
        });
        let command = |name: &str, status: &str, result: Value| {
            json!({
                "id": Uuid::new_v4(), "command_name": name, "command_params": {},
                "command_status": status, "command_error": null, "command_result": result,
            })
        };
        let steps = command(
            "get_clean_steps",
            "SUCCEEDED",
            json!({
                "clean_steps": {"simulated": [step]},
                "hardware_manager_version": {"simulated": "1.0"},
            }),
        );
        let running = command("execute_clean_step", "RUNNING", Value::Null);
        let text = |commands: Vec<&Value>| Bytes::from(json!({"commands": commands}).to_string());
        Self {
            busy: Mutex::default(),
            asked: AtomicU64::new(0),
            idle_list: text(vec![&steps]),
            busy_list: text(vec![&steps, &running]),
            steps,
            running,
        }
    }

    fn busy(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn list(State(shared): State<Arc<Shared>>, Path(agent): Path<String>) -> Response {
    shared.asked.fetch_add(1, Ordering::Relaxed);
    let list = if shared.busy().contains(&agent) {
        &shared.busy_list
    } else {
        &shared.idle_list
    };
    ([(CONTENT_TYPE, "application/json")], list.clone()).into_response()
}

async fn run(
    State(shared): State<Arc<Shared>>,
    Path(agent): Path<String>,
    body: Bytes,
) -> Response {
    shared.asked.fetch_add(1, Ordering::Relaxed);
    let command: Value = serde_json::from_slice(&body).unwrap_or_default();
    let answer = match command["name"].as_str() {
        Some("clean.get_clean_steps") => &shared.steps,
        Some("clean.execute_clean_step") => {
            shared.busy().insert(agent);
            &shared.running
        }
        other => {
            let text = format!("a simulated agent knows no command {other:?}");
            return (StatusCode::NOT_FOUND, text).into_response();
        }
    };
    ([(CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
}
