//! Resources beside nodes: bodies, versions and rules as a real Ironic was seen
//! to answer.

mod chassis;
mod deploy_templates;
mod portgroups;
mod runbooks;
mod volume;

use serde_json::Value;
use serde_json::json;

use crate::support::Answer;
use crate::support::Api;

/// What every link begins with.
const BASE: &str = "http://api.test";

/// The two links to a resource.
fn links(path: &str) -> Value {
    json!([
        {"href": format!("{BASE}/v1/{path}"), "rel": "self"},
        {"href": format!("{BASE}/{path}"), "rel": "bookmark"},
    ])
}

/// A body whose times are only told to be there.
fn timeless(mut body: Value) -> Value {
    for key in ["created_at", "updated_at"] {
        if let Some(time) = body.get_mut(key).filter(|time| time.is_string()) {
            *time = json!("set");
        }
    }
    body
}

impl Api {
    async fn post(&self, path: &str, body: Value) -> Answer {
        self.call("latest", "POST", path, body).await
    }

    async fn patch(&self, path: &str, body: Value) -> Answer {
        self.call("latest", "PATCH", path, body).await
    }

    async fn delete(&self, path: &str) -> Answer {
        self.call("latest", "DELETE", path, Value::Null).await
    }

    /// Statuses of requests in one version.
    async fn statuses(&self, version: &str, requests: &[(&str, &str, u16)]) {
        for (method, path, status) in requests {
            let body = match *method {
                "POST" => json!({}),
                "PATCH" => json!([{"op": "remove", "path": "/extra"}]),
                "PUT" => json!({"traits": []}),
                _ => Value::Null,
            };
            let answer = self.call(version, method, path, body).await;
            assert_eq!(answer.status, *status, "{version} {method} {path}");
        }
    }
}
