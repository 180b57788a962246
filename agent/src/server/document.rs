//! The documents that say what is where.

use axum::Json;
use axum::http::HeaderMap;
use axum::http::header::HOST;
use serde_json::Value;
use serde_json::json;

/// Where the caller thinks that we are.
fn base(headers: &HeaderMap) -> String {
    let host = headers
        .get(HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or("localhost");
    format!("https://{host}")
}

fn described(base: &str) -> Value {
    json!([
        { "href": format!("{base}/v1"), "rel": "self" },
        {
            "href": "https://docs.openstack.org/ironic-python-agent/",
            "rel": "describedby",
            "type": "text/html",
        },
    ])
}

/// `GET /`.
pub(super) async fn root(headers: HeaderMap) -> Json<Value> {
    let version = json!({ "id": "v1", "links": described(&base(&headers)) });
    Json(json!({
        "name": "OpenStack Ironic Python Agent API",
        "description": "Wrought's agent, with the API of ironic-python-agent",
        "versions": [version],
        "default_version": version,
    }))
}

/// `GET /v1/`.
pub(super) async fn v1(headers: HeaderMap) -> Json<Value> {
    let base = base(&headers);
    let resource = |name: &str| {
        json!([
            { "href": format!("{base}/v1/{name}"), "rel": "self" },
            { "href": format!("{base}/{name}"), "rel": "bookmark" },
        ])
    };
    Json(json!({
        "id": "v1",
        "commands": resource("commands"),
        "status": resource("status"),
        "links": described(&base),
        "media_types": [{
            "base": "application/json",
            "type": "application/vnd.openstack.ironic-python-agent.v1+json",
        }],
    }))
}
