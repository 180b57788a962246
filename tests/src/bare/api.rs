//! The least API that an agent needs: one node, whoever asks.

use std::net::SocketAddr;

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
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The node's token.
pub(super) const TOKEN: &str = "c2hvcnQtbGl2ZWQtdG9rZW4tb2YtYS1iYXJlLW1hY2g";
/// The node.
pub(super) const NODE: &str = "aaaaaaaa-0000-4000-8000-00000000ba5e";

/// A running API.
#[derive(Debug)]
pub(super) struct Api {
    pub(super) address: SocketAddr,
    pub(super) beats: mpsc::Receiver<Value>,
    server: JoinHandle<()>,
}

impl Api {
    pub(super) async fn start() -> Result<Self> {
        let (sender, beats) = mpsc::channel(4);
        let router = Router::new()
            .route("/", get(root))
            .route("/v1/lookup", get(lookup))
            .route("/v1/heartbeat/{node}", post(heartbeat))
            .with_state(sender);
        // The guest's 10.0.2.2 is this loopback.
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(async move {
            axum::serve(listener, router).await.ok();
        });
        Ok(Self {
            address,
            beats,
            server,
        })
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn root() -> Json<Value> {
    Json(json!({"default_version": {"version": "1.115"}}))
}

async fn lookup() -> Json<Value> {
    Json(json!({
        "node": {
            "uuid": NODE, "properties": {}, "instance_info": {}, "driver_internal_info": {}, "links": [],
        },
        "config": {
            "heartbeat_timeout": 300, "agent_token": TOKEN, "agent_token_required": true, "metrics": {},
        },
    }))
}

async fn heartbeat(
    State(beats): State<mpsc::Sender<Value>>,
    Json(beat): Json<Value>,
) -> StatusCode {
    // Nobody waits for the later ones.
    beats.try_send(beat).ok();
    StatusCode::ACCEPTED
}
