//! An API with one node, over TLS with a CA of its own.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::Router;
use axum::extract::Path;
use axum::extract::RawQuery;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::get;
use axum::routing::post;
use rcgen::BasicConstraints;
use rcgen::CertificateParams;
use rcgen::IsCa;
use rcgen::Issuer;
use rcgen::KeyPair;
use rustls::pki_types::PrivateKeyDer;
use serde_json::Value;
use serde_json::json;
use sha2::Digest;
use sha2::Sha256;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use wrought_wire::microversion::HEADER;

/// The node's token.
pub(crate) const TOKEN: &str = "ymIdJpjpTaslbgBMxCHNqsneN2muw-zuv06dJFu8Tuk";
/// The node's port.
pub(crate) const MAC: &str = "52:54:00:00:aa:01";
/// The node.
pub(crate) const NODE: &str = "aaaaaaaa-0000-4000-8000-0000000000a1";

/// A running API.
pub(crate) struct Api {
    pub(crate) url: String,
    pub(crate) ca_sha256: String,
    pub(crate) beats: mpsc::Receiver<Value>,
    lookups: Arc<AtomicUsize>,
}

#[derive(Clone)]
struct Shared {
    beats: mpsc::Sender<Value>,
    lookups: Arc<AtomicUsize>,
}

impl Api {
    pub(crate) async fn start() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_der = ca.self_signed(&key).unwrap().der().clone();
        let issuer = Issuer::new(ca, key);
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key, &issuer).unwrap().der().clone();
        let digest = Sha256::digest(&ca_der);
        let ca_sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![leaf, ca_der],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        let (sender, beats) = mpsc::channel(64);
        let lookups = Arc::new(AtomicUsize::new(0));
        let shared = Shared {
            beats: sender,
            lookups: Arc::clone(&lookups),
        };
        let router = Router::new()
            .route(
                "/",
                get(async || Json(json!({"default_version": {"version": "1.115"}}))),
            )
            .route("/v1/lookup", get(lookup))
            .route("/v1/heartbeat/{node}", post(heartbeat))
            .with_state(shared);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        tokio::spawn(wrought_agent::server::serve(
            listener,
            Arc::new(tls),
            router,
        ));
        Self {
            url,
            ca_sha256,
            beats,
            lookups,
        }
    }

    pub(crate) fn lookups(&self) -> usize {
        self.lookups.load(Ordering::Relaxed)
    }

    pub(crate) fn node(&self) -> &'static str {
        NODE
    }
}

/// Not found twice, then found.
async fn lookup(
    State(shared): State<Shared>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    assert_eq!(headers[HEADER], "1.62");
    assert_eq!(
        query.as_deref(),
        Some("addresses=52%3A54%3A00%3A00%3Aaa%3A01")
    );
    if shared.lookups.fetch_add(1, Ordering::Relaxed) < 2 {
        let inner = json!({"faultcode": "Client", "faultstring": "Resource could not be found.", "debuginfo": null});
        return (
            StatusCode::NOT_FOUND,
            Json(json!({"error_message": inner.to_string()})),
        )
            .into_response();
    }
    Json(json!({
        "node": {"uuid": NODE, "properties": {}, "instance_info": {}, "driver_internal_info": {}, "links": []},
        "config": {"heartbeat_timeout": 300, "agent_token": TOKEN, "agent_token_required": true, "metrics": {}},
    }))
    .into_response()
}

async fn heartbeat(
    State(shared): State<Shared>,
    Path(node): Path<String>,
    headers: HeaderMap,
    Json(beat): Json<Value>,
) -> StatusCode {
    assert_eq!(node, NODE);
    assert_eq!(headers[HEADER], "1.68");
    shared.beats.try_send(beat).ok();
    StatusCode::ACCEPTED
}
