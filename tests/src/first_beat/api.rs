//! An API of one node: it knows every machine, and notes when it calls.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Instant;

use anyhow::Result;
use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::routing::post;
use serde_json::Value;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The node that every machine is.
pub const NODE: &str = "aaaaaaaa-0000-4000-8000-0000000000b1";

#[derive(Debug, Clone, Default)]
struct Shared {
    first: Arc<Mutex<Option<Instant>>>,
    token: Arc<str>,
}

/// It listens on a port of its own until it is dropped.
#[derive(Debug)]
pub struct Api {
    port: u16,
    shared: Shared,
    serving: JoinHandle<()>,
}

impl Api {
    /// Starts it.
    pub async fn start() -> Result<Self> {
        let shared = Shared {
            token: crate::random_hex(24).into(),
            ..Shared::default()
        };
        let version = json!({"default_version": {"version": "1.115"}});
        let router = Router::new()
            .route("/", get(async move || Json(version)))
            .route("/v1/lookup", get(lookup))
            .route("/v1/heartbeat/{node}", post(heartbeat))
            .with_state(shared.clone());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let serving = tokio::spawn(async move {
            // An error ends the test by its time limit, with the console.
            axum::serve(listener, router).await.ok();
        });
        Ok(Self {
            port,
            shared,
            serving,
        })
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// When the first heartbeat came.
    pub fn first_beat(&self) -> Option<Instant> {
        *self
            .shared
            .first
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn lookup(State(shared): State<Shared>) -> Json<Value> {
    Json(json!({
        "node": {
            "uuid": NODE,
            "properties": {},
            "instance_info": {},
            "driver_internal_info": {},
            "links": [],
        },
        "config": {
            "heartbeat_timeout": 300,
            "agent_token": &*shared.token,
            "agent_token_required": true,
            "metrics": {},
        },
    }))
}

async fn heartbeat(State(shared): State<Shared>) -> StatusCode {
    let mut first = shared.first.lock().unwrap_or_else(PoisonError::into_inner);
    first.get_or_insert_with(Instant::now);
    StatusCode::ACCEPTED
}
