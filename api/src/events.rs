//! `POST /v1/events`: what other services tell, such as the network service of
//! its ports. They are checked and taken; nothing here waits for them.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_wire::mac::normalised as mac;

use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::query::Query;
use crate::routes::Routes;
use crate::version::since;

/// Events of one request, at most.
const MOST: usize = 1000;

const EVENTS: [&str; 3] = [
    "network.bind_port",
    "network.unbind_port",
    "network.delete_port",
];

/// Routes of this file.
pub(crate) fn router() -> Routes {
    Routes::new().route("/v1/events", post(take))
}

async fn take(context: Context, request: Request) -> Result<StatusCode> {
    context.endpoint(since::EVENTS)?;
    Query::read(request.uri(), &context, &[])?;
    let (parts, body) = request.into_parts();
    let given = match body::maybe_json(&parts.headers, body, body::ORDINARY).await? {
        None => Map::new(),
        Some(Value::Object(given)) => given,
        Some(other) => return Err(bad(&format!("{} is not an object", body::kind(&other)))),
    };
    let events = match given.get("events") {
        None => return Err(bad("'events' is a required property")),
        Some(Value::Array(events)) if events.is_empty() => {
            return Err(bad("[] should be non-empty"));
        }
        Some(Value::Array(events)) if events.len() > MOST => {
            return Err(bad(&format!("more than {MOST} events")));
        }
        Some(Value::Array(events)) => events,
        Some(other) => return Err(bad(&format!("{} is not an array", body::kind(other)))),
    };
    body::only(&given, &["events"])?;
    for event in events {
        let event = event
            .as_object()
            .ok_or_else(|| bad(&format!("{} is not an object", body::kind(event))))?;
        check(event)?;
        let text = |key: &str| event.get(key).and_then(Value::as_str);
        tracing::debug!(event = text("event"), port = text("port_id"), "event taken");
    }
    Ok(StatusCode::NO_CONTENT)
}

fn bad(problem: &str) -> ApiError {
    ApiError::bad_request(format!("Schema error: {problem}"))
}

fn check(event: &Map<String, Value>) -> Result<()> {
    for key in ["event", "port_id", "mac_address", "status"] {
        if !event.contains_key(key) {
            return Err(bad(&format!("'{key}' is a required property")));
        }
        // The kind of event decides what else is looked at.
        if key == "event"
            && !EVENTS
                .iter()
                .any(|name| event.get(key) == Some(&Value::from(*name)))
        {
            let found = event.get(key).unwrap_or(&Value::Null);
            return Err(bad(&format!("{found} is not one of {EVENTS:?}")));
        }
    }
    for (key, value) in event {
        let text = value.as_str();
        let fine = match key.as_str() {
            "event" => true,
            "port_id" | "device_id" | "binding:host_id" => {
                text.is_some_and(|text| Uuid::try_parse(text).is_ok())
            }
            "mac_address" => text.is_some_and(|text| mac(text).is_some()),
            "status" | "binding:vnic_type" => text.is_some(),
            _ => {
                return Err(bad(&format!(
                    "Additional properties are not allowed ('{key}' was unexpected)"
                )));
            }
        };
        if !fine {
            return Err(bad(&format!("{value} is not valid for '{key}'")));
        }
    }
    Ok(())
}
