//! The client against a server that gives prepared answers.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::Method;
use axum::http::StatusCode;
use axum::http::Uri;
use axum::response::IntoResponse;
use serde_json::Value;
use serde_json::json;
use wrought_wire::fault::Fault;

use super::Client;
use super::Environment;
use super::Options;
use crate::exit::Kind;

/// What the double was asked: method, path with query, body.
pub(crate) type Asked = (String, String, Value);

/// A server that gives prepared answers in order and notes what it was
/// asked.
#[derive(Clone, Default)]
pub(crate) struct Double {
    answers: Arc<Mutex<Vec<(u16, String)>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    headers: Arc<Mutex<Vec<HeaderMap>>>,
}

impl Double {
    /// The double and a client for it.
    pub(crate) async fn start(answers: &[(u16, Value)]) -> (Self, Client) {
        Self::start_with(answers, Options::default()).await
    }

    pub(crate) async fn start_with(answers: &[(u16, Value)], options: Options) -> (Self, Client) {
        crate::install_crypto();
        let double = Self::default();
        *double.answers.lock().unwrap() = answers
            .iter()
            .rev()
            .map(|(status, body)| {
                let text = match body {
                    Value::Null => String::new(),
                    Value::String(told) if *status >= 400 => {
                        Fault::new(*status, told.clone()).to_body()
                    }
                    body => body.to_string(),
                };
                (*status, text)
            })
            .collect();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let noting = double.clone();
        let router = Router::new().fallback(
            move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| async move {
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                noting
                    .asked
                    .lock()
                    .unwrap()
                    .push((method.to_string(), uri.to_string(), body));
                noting.headers.lock().unwrap().push(headers);
                let answer = noting.answers.lock().unwrap().pop();
                let (status, text) = answer.unwrap_or((500, "no answer left".to_owned()));
                (StatusCode::from_u16(status).unwrap(), text).into_response()
            },
        );
        tokio::spawn(async move { axum::serve(listener, router).await });
        let options = Options {
            url: Some(url),
            ..options
        };
        let mut client = Client::new(options, Environment::default()).unwrap();
        client.rest = Duration::from_millis(1);
        (double, client)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn asks_for_the_newest_version_and_escapes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("p");
    std::fs::write(&file, "secret\nrest").unwrap();
    let options = Options {
        user: "admin".to_owned(),
        password_file: Some(file),
        ..Options::default()
    };
    let (double, client) = Double::start_with(&[(200, json!({"a": 1}))], options).await;
    let answer = client
        .get(&["nodes", "a b/c"], &[("fields", "x&y")])
        .await
        .unwrap();
    assert_eq!(answer, json!({"a": 1}));
    assert_eq!(double.asked()[0].1, "/v1/nodes/a%20b%2Fc?fields=x%26y");
    let headers = double.headers.lock().unwrap().remove(0);
    assert_eq!(headers["x-openstack-ironic-api-version"], "latest");
    assert_eq!(headers["authorization"], "Basic YWRtaW46c2VjcmV0");
    assert!(!format!("{client:?}").contains("secret"));
}

#[tokio::test]
async fn waits_for_locks_but_not_for_duplicates() {
    let locked = (409, json!("Node n is locked by host h."));
    let (double, client) = Double::start(&[locked.clone(), locked, (202, Value::Null)]).await;
    let body = json!({});
    let put = client.change(Method::PUT, &["nodes", "n", "maintenance"], Some(&body));
    assert_eq!(put.await.unwrap(), Value::Null);
    assert_eq!(double.asked().len(), 3);

    let (double, client) = Double::start(&[(409, json!("A node with that name."))]).await;
    let failure = client
        .change(Method::POST, &["nodes"], Some(&json!({})))
        .await
        .unwrap_err();
    assert_eq!(
        failure.to_string(),
        "POST /v1/nodes: A node with that name. (HTTP 409)"
    );
    assert_eq!((failure.kind, double.asked().len()), (Kind::Data, 1));
}

#[tokio::test]
async fn failures_say_what_to_do() {
    let unauthorised = json!({"error": {"message": "no", "code": 401}});
    let (_double, client) = Double::start(&[(401, unauthorised), (200, json!("x"))]).await;
    let failure = client.get(&["nodes"], &[]).await.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "GET /v1/nodes: no (HTTP 401): give --password-file (and --user)"
    );

    let options = Options {
        url: Some("http://127.0.0.1:1".to_owned()),
        ..Options::default()
    };
    let client = Client::new(options, Environment::default()).unwrap();
    let failure = client.get(&["nodes"], &[]).await.unwrap_err();
    assert_eq!(failure.kind, Kind::Unavailable);
    assert!(
        failure
            .to_string()
            .starts_with("no answer from http://127.0.0.1:1"),
        "{failure}"
    );

    let options = Options {
        url: Some("127.0.0.1:6385".to_owned()),
        ..Options::default()
    };
    let failure = Client::new(options, Environment::default()).unwrap_err();
    assert_eq!(failure.kind, Kind::Usage);
}

#[tokio::test]
async fn names_that_a_url_cannot_carry_are_refused() {
    let (double, client) = Double::start(&[(200, json!({"nodes": []}))]).await;
    for name in ["", ".", ".."] {
        let failure = client.get(&["nodes", name], &[]).await.unwrap_err();
        assert_eq!(failure.kind, Kind::Usage, "{failure}");
    }
    assert!(double.asked().is_empty());
}

#[test]
fn options_that_cannot_be_meant_are_refused() {
    crate::install_crypto();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("no.pem");
    std::fs::write(&file, "secret\n").unwrap();
    let options = Options {
        ca: Some(file.clone()),
        ..Options::default()
    };
    let failure = Client::new(options, Environment::default()).unwrap_err();
    assert_eq!(failure.kind, Kind::Data);
    assert!(failure.to_string().contains("no.pem"), "{failure}");

    for (url, fine) in [
        ("http://192.0.2.1:6385", false),
        ("http://wrought.test", false),
        ("https://192.0.2.1:6385", true),
        ("http://127.0.0.2:6385", true),
        ("http://[::1]:6385", true),
        ("http://localhost", true),
    ] {
        let options = Options {
            url: Some(url.to_owned()),
            password_file: Some(file.clone()),
            ..Options::default()
        };
        let made = Client::new(options, Environment::default());
        assert_eq!(
            made.as_ref().err().map(|f| f.kind),
            (!fine).then_some(Kind::Usage),
            "{url}"
        );
    }
}
