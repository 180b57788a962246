//! One simulated agent that a deploy can be made with: it has the step
//! `write_image`, which takes its time, does what else the conductor asks at
//! once, and calls in every second until it is told to power off.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use anyhow::Result;
use axum::Json;
use axum::Router;
use axum::extract::Path;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use reqwest::Method;
use serde_json::Value;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use uuid::Uuid;

use super::Agent;
use crate::api::Api;

/// Between two heartbeats.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Given {
    id: Uuid,
    name: String,
    result: Value,
    ends: Instant,
}

impl Given {
    fn show(&self) -> Value {
        let (status, result) = if Instant::now() < self.ends {
            ("RUNNING", &Value::Null)
        } else {
            ("SUCCEEDED", &self.result)
        };
        json!({
            "id": self.id, "command_name": self.name, "command_params": {},
            "command_status": status, "command_error": null, "command_result": result,
        })
    }
}

#[derive(Debug)]
struct Shared {
    given: Mutex<Vec<Given>>,
    writing: Duration,
}

impl Shared {
    fn given(&self) -> std::sync::MutexGuard<'_, Vec<Given>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The agent; it is gone when this is dropped.
#[derive(Debug)]
pub struct Deploying {
    shared: Arc<Shared>,
    address: SocketAddr,
    tasks: Vec<AbortHandle>,
}

impl Deploying {
    /// Serves on loopback, over plain HTTP; `writing` is how long the image
    /// takes.
    pub async fn start(writing: Duration) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            given: Mutex::default(),
            writing,
        });
        let router = Router::new()
            .route("/v1/commands/", get(list).post(run))
            .route("/v1/commands/{id}", get(one))
            .with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self {
            shared,
            address,
            tasks: vec![server.abort_handle()],
        })
    }

    /// Looks itself up and calls in from then on, whether anybody answers or
    /// not.
    pub async fn call(&mut self, api: &Api, node: &str) -> Result<()> {
        let found = api.get(&format!("/v1/lookup?node_uuid={node}")).await?;
        let token = found["config"]["agent_token"].as_str().unwrap_or_default();
        let agent = Agent {
            node: node.to_owned(),
            token: token.to_owned(),
            url: format!("http://{}", self.address),
            certificate: None,
        };
        let (api, shared) = (api.clone(), Arc::clone(&self.shared));
        let calling = tokio::spawn(async move {
            while !was_given(&shared, "power_off") {
                let body = agent.heartbeat();
                // A dead server does not answer; the agent comes again.
                api.send(Method::POST, &agent.path(), Some(&body))
                    .await
                    .ok();
                tokio::time::sleep(INTERVAL).await;
            }
        });
        self.tasks.push(calling.abort_handle());
        Ok(())
    }

    /// How often it was told to write the image.
    pub fn writes(&self) -> usize {
        let given = self.shared.given();
        let writes = given
            .iter()
            .filter(|given| given.name == "execute_deploy_step");
        writes.count()
    }

    /// Whether the image is written.
    pub fn has_written(&self) -> bool {
        let given = self.shared.given();
        given
            .iter()
            .any(|given| given.name == "execute_deploy_step" && Instant::now() >= given.ends)
    }

    /// Whether it was told to power off.
    pub fn is_off(&self) -> bool {
        was_given(&self.shared, "power_off")
    }
}

impl Drop for Deploying {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

fn was_given(shared: &Shared, name: &str) -> bool {
    shared.given().iter().any(|given| given.name == name)
}

async fn list(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let commands: Vec<Value> = shared.given().iter().map(Given::show).collect();
    Json(json!({"commands": commands}))
}

async fn one(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<Uuid>,
) -> Result<Json<Value>, StatusCode> {
    let given = shared.given();
    let found = given.iter().find(|given| given.id == id);
    found
        .map(|given| Json(given.show()))
        .ok_or(StatusCode::NOT_FOUND)
}

async fn run(State(shared): State<Arc<Shared>>, Json(command): Json<Value>) -> Json<Value> {
    let name = command["name"].as_str().unwrap_or_default();
    let (result, takes) = match name {
        "deploy.get_deploy_steps" => {
            let step = json!({
                "step": "write_image", "priority": 80, "interface": "deploy",
                "reboot_requested": false, "argsinfo": null,
            });
            let steps = json!({
                "deploy_steps": {"simulated": [step]},
                "hardware_manager_version": {"simulated": "1.0"},
            });
            (steps, Duration::ZERO)
        }
        "deploy.execute_deploy_step" => {
            let step = &command["params"]["step"];
            let done = json!({"deploy_step": step, "deploy_result": null});
            (done, shared.writing)
        }
        _ => (Value::Null, Duration::ZERO),
    };
    let given = Given {
        id: Uuid::new_v4(),
        name: name.rsplit('.').next().unwrap_or_default().to_owned(),
        result,
        ends: Instant::now() + takes,
    };
    let shown = given.show();
    shared.given().push(given);
    Json(shown)
}
