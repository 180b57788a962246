//! The shapes of ironic-python-agent's answers (wire captures of 13.0.0).

mod peer;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::http::Response;
use serde_json::Value;
use serde_json::json;
use tokio::sync::Notify;
use tower::ServiceExt;
use wrought_wire::EPOCH_HEADER;
use wrought_wire::secret::Secret;

use super::Shared;
use super::router;
use crate::command::Agent;
use crate::command::Mode;
use crate::command::Registry;
use crate::command::Runner;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn server() -> (Router, Arc<Notify>) {
    let gate = Arc::new(Notify::new());
    let inner = Arc::clone(&gate);
    let mut registry = Registry::default();
    registry.blocking("standby.sync", Mode::Sync, |_, _| Ok(Value::Null));
    registry.task("standby.prepare_image", Mode::Async, move |_, _| {
        let gate = Arc::clone(&inner);
        async move {
            gate.notified().await;
            Ok(json!("image (x) written"))
        }
    });
    let runner = Runner::new(Arc::new(Agent::for_tests()), registry);
    (
        router(Shared::new(Arc::new(runner), Secret::new(TOKEN))),
        gate,
    )
}

async fn call(router: &Router, request: Request<Body>) -> (u16, Value) {
    let response: Response<Body> = router.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20)
        .await
        .unwrap();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

async fn get(router: &Router, uri: &str) -> (u16, Value) {
    call(router, Request::get(uri).body(Body::empty()).unwrap()).await
}

async fn post(router: &Router, query: &str, body: &str) -> (u16, Value) {
    let uri = format!("/v1/commands/?{query}agent_token={TOKEN}");
    call(
        router,
        Request::post(uri)
            .body(Body::from(body.to_owned()))
            .unwrap(),
    )
    .await
}

fn fault(text: &str) -> Value {
    json!({"faultcode": "Client", "faultstring": text})
}

#[tokio::test]
async fn open_documents() {
    let (router, _) = server();
    let (status, root) = get(&router, "/").await;
    assert_eq!(
        (status, &root["default_version"]["id"]),
        (200, &json!("v1"))
    );
    for uri in ["/v1", "/v1/"] {
        let (status, document) = get(&router, uri).await;
        assert_eq!((status, &document["id"]), (200, &json!("v1")));
    }
    for uri in ["/v1/status", "/status", "/v1/status/"] {
        let (status, document) = get(&router, uri).await;
        assert_eq!(status, 200);
        assert!(document["started_at"].as_f64().unwrap() > 1.7e9);
        assert!(document["peak_rss_bytes"].as_u64().unwrap() > 1 << 20);
        assert!(document["version"].is_string());
    }
}

#[tokio::test]
async fn every_commands_call_needs_the_token() {
    let (router, _) = server();
    let denied = (401, fault("401 Unauthorized: Token invalid."));
    let id = "00000000-0000-4000-8000-000000000000";
    for uri in [
        "/v1/commands/".to_owned(),
        "/commands".to_owned(),
        format!("/v1/commands/{id}"),
    ] {
        assert_eq!(get(&router, &uri).await, denied);
        assert_eq!(
            get(&router, &format!("{uri}?agent_token=bad")).await,
            denied
        );
    }
    let request = Request::post("/v1/commands/")
        .body(Body::from("{"))
        .unwrap();
    assert_eq!(call(&router, request).await, denied);
    let empty = (200, json!({"commands": []}));
    for uri in ["/v1/commands/", "/v1/commands", "/commands", "/commands/"] {
        assert_eq!(
            get(&router, &format!("{uri}?agent_token={TOKEN}")).await,
            empty
        );
    }
}

#[tokio::test]
async fn synchronous_command() {
    let (router, _) = server();
    let (status, body) = post(
        &router,
        "wait=true&",
        r#"{"name":"standby.sync","params":{}}"#,
    )
    .await;
    let id = body["id"].as_str().unwrap().to_owned();
    let expected = json!({
        "id": id, "command_name": "sync", "command_status": "SUCCEEDED",
        "command_error": null, "command_result": null,
    });
    assert_eq!((status, &body), (200, &expected));
    for query in ["", "wait=true&"] {
        let uri = format!("/v1/commands/{id}?{query}agent_token={TOKEN}");
        assert_eq!(get(&router, &uri).await, (200, expected.clone()));
    }
}

#[tokio::test]
async fn what_is_refused() {
    let (router, _) = server();
    let missing = "400 Bad Request: Missing or invalid name or params";
    for (body, status, text) in [
        (r#"{"name":"standby.sync"}"#, 400, missing),
        (r#"{"name":"standby.sync","params":[]}"#, 400, missing),
        (
            r#"{"name":"nosuch.thing","params":{}}"#,
            404,
            "Not found: Extension with id nosuch not found.",
        ),
        (
            r#"{"name":"standby.nothing","params":{}}"#,
            400,
            "Invalid command: Unknown command: nothing",
        ),
        (
            r#"{"name":"nodot","params":{}}"#,
            400,
            "Invalid command: Command name must be of the form <extension>.<name>",
        ),
    ] {
        assert_eq!(
            post(&router, "", body).await,
            (status, fault(text)),
            "{body}"
        );
    }
    let (status, body) = post(&router, "", r#"{"name":"#).await;
    let text = body["faultstring"].as_str().unwrap();
    assert_eq!(status, 400);
    assert!(
        text.starts_with("400 Bad Request: Failed to decode JSON object: "),
        "{text}"
    );

    let id = "00000000-0000-4000-8000-000000000000";
    let uri = format!("/v1/commands/{id}?agent_token={TOKEN}");
    let text = format!("Not found: Command Result with id {id} not found.");
    assert_eq!(get(&router, &uri).await, (404, fault(&text)));
    assert_eq!(get(&router, "/v2/").await.0, 404);

    let uri = format!("/v1/commands/?agent_token={TOKEN}");
    let request = Request::delete(&uri).body(Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status().as_u16(), 405);
    assert_eq!(response.headers()["allow"], "GET, HEAD, POST");
}

#[tokio::test]
async fn asynchronous_command_is_busy_then_done() {
    let (router, gate) = server();
    let body = r#"{"name":"standby.prepare_image","params":{}}"#;
    let (status, started) = post(&router, "wait=false&", body).await;
    assert_eq!(
        (status, &started["command_status"]),
        (200, &json!("RUNNING"))
    );
    assert_eq!(started["command_result"], Value::Null);

    let busy = post(&router, "", r#"{"name":"standby.sync","params":{}}"#).await;
    assert_eq!(
        busy,
        (409, fault("Agent is busy: executing command prepare_image"))
    );

    let waiting = tokio::spawn({
        let router = router.clone();
        async move {
            get(
                &router,
                &format!("/v1/commands?wait=30&agent_token={TOKEN}"),
            )
            .await
        }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    gate.notify_one();
    let (_, list) = waiting.await.unwrap();
    assert_eq!(
        list["commands"][0]["command_result"],
        json!({"result": "prepare_image: image (x) written"})
    );
}

#[tokio::test]
async fn a_conductor_that_lost_its_lock_is_refused() {
    let (router, _) = server();
    let request = |epoch: &str| {
        Request::post(format!("/v1/commands/?agent_token={TOKEN}"))
            .header(EPOCH_HEADER, epoch)
            .body(Body::from(r#"{"name":"standby.sync","params":{}}"#))
            .unwrap()
    };
    assert_eq!(call(&router, request("7")).await.0, 200);
    let (status, body) = call(&router, request("6")).await;
    assert_eq!(status, 409);
    assert!(
        body["faultstring"]
            .as_str()
            .unwrap()
            .starts_with("Stale lock epoch")
    );
    assert_eq!(call(&router, request("x")).await.0, 400);
    assert_eq!(call(&router, request("7")).await.0, 200);
}
