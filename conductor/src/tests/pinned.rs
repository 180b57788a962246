//! TLS to agents: their own certificate and no other.

use axum::Json;
use axum::Router;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::http::header;
use axum::routing::get;
use serde_json::json;
use wrought_wire::secret::Secret;

use super::agent::identity;
use super::agent::serve;
use crate::agent::Client;
use crate::agent::Error;
use crate::error::chain;

const TOKEN: &str = "a-token-that-must-never-be-shown";

fn client(url: &str, pem: &str) -> Client {
    Client::new(url, Some(pem), Secret::new(TOKEN), 7).unwrap()
}

#[tokio::test]
async fn own_certificate_and_no_other() {
    let router = Router::new().route(
        "/v1/commands/",
        get(|headers: HeaderMap| async move {
            assert!(headers.get("x-wrought-lock-epoch").is_none());
            Json(json!({"commands": []}))
        })
        .post(|headers: HeaderMap| async move {
            assert_eq!(headers["x-wrought-lock-epoch"], "7");
            Json(json!({
                "id": uuid::Uuid::nil(), "command_name": "sync", "command_status": "SUCCEEDED",
                "command_error": null, "command_result": null,
            }))
        }),
    );
    let (pem, tls) = identity();
    let (url, _server) = serve(tls, router).await;
    assert!(client(&url, &pem).commands().await.unwrap().is_empty());
    assert!(
        client(&format!("{url}/v1"), &pem)
            .commands()
            .await
            .unwrap()
            .is_empty()
    );
    client(&url, &pem)
        .run("standby.sync", Default::default(), true)
        .await
        .unwrap();
    let (other, _) = identity();
    let error = client(&url, &other).commands().await.unwrap_err();
    assert!(matches!(error, Error::OtherCertificate { .. }), "{error:?}");
    assert!(error.is_stranger() && !error.is_connection());
    let nobody = client("https://127.0.0.1:1", &pem)
        .commands()
        .await
        .unwrap_err();
    assert!(nobody.is_connection() && !nobody.is_stranger());
    assert!(
        Client::new(&url, None, Secret::new(TOKEN), 0).is_err(),
        "https needs a pin"
    );
    for error in [error, nobody] {
        assert!(
            !format!("{error:?} {}", chain(&error)).contains(TOKEN),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn answers_are_told_apart() {
    let answer = |status: StatusCode| {
        move || async move {
            (
                status,
                Json(json!({"faultcode": "Client", "faultstring": "words"})),
            )
        }
    };
    let router = Router::new()
        .route("/busy/v1/commands/", get(answer(StatusCode::CONFLICT)))
        .route("/token/v1/commands/", get(answer(StatusCode::UNAUTHORIZED)))
        .route("/odd/v1/commands/", get(answer(StatusCode::BAD_REQUEST)))
        .route("/html/v1/commands/", get(|| async { "<html>" }))
        .route(
            "/moved/v1/commands/",
            get(|| async {
                (
                    StatusCode::FOUND,
                    [(header::LOCATION, "https://evil.test/")],
                )
            }),
        );
    let (pem, tls) = identity();
    let (url, _server) = serve(tls, router).await;
    let ask = async |path: &str| {
        client(&format!("{url}/{path}"), &pem)
            .commands()
            .await
            .unwrap_err()
    };
    assert!(matches!(ask("busy").await, Error::Busy { message, .. } if message == "words"));
    assert!(ask("token").await.is_stranger());
    assert!(
        matches!(ask("odd").await, Error::Refused { status: 400, message, .. } if message == "words")
    );
    assert!(matches!(ask("html").await, Error::Malformed { .. }));
    // A redirect is an answer like any other; the token goes nowhere else.
    assert!(matches!(
        ask("moved").await,
        Error::Refused { status: 302, .. }
    ));
}
