//! An API of one node: it knows every machine, and notes when it calls.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
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
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The node that every machine is.
pub const NODE: &str = "aaaaaaaa-0000-4000-8000-0000000000b1";

/// The first heartbeat.
#[derive(Debug, Clone)]
pub struct Beat {
    /// When it came.
    pub at: Instant,
    /// Where the agent says it serves its commands.
    pub callback_url: String,
}

#[derive(Debug, Clone)]
struct Shared {
    first: Arc<watch::Sender<Option<Beat>>>,
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
    /// Starts it on this host's loopback, which is QEMU's 10.0.2.2 for a guest.
    pub async fn start() -> Result<Self> {
        let shared = Shared {
            first: Arc::new(watch::Sender::new(None)),
            token: crate::random_hex(24).into(),
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

    /// What agents were given at their lookup.
    pub fn token(&self) -> &str {
        &self.shared.token
    }

    /// The first heartbeat, if one has come.
    pub fn first_beat(&self) -> Option<Beat> {
        self.shared.first.borrow().clone()
    }

    /// Waits for the first heartbeat.
    pub async fn beat(&self) -> Result<Beat> {
        let mut first = self.shared.first.subscribe();
        let beat = first.wait_for(Option::is_some).await?;
        beat.clone().context("no heartbeat")
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

async fn heartbeat(State(shared): State<Shared>, Json(beat): Json<Value>) -> StatusCode {
    let callback_url = beat["callback_url"].as_str().unwrap_or_default().to_owned();
    shared.first.send_if_modified(|first| {
        let is_new = first.is_none();
        first.get_or_insert_with(|| Beat {
            at: Instant::now(),
            callback_url,
        });
        is_new
    });
    StatusCode::ACCEPTED
}
