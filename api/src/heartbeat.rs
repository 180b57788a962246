//! `POST /v1/heartbeat/{ident}`: an agent says that it lives.

use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_wire::heartbeat::Heartbeat;

use crate::ApiState;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::nodes;
use crate::routes::Routes;
use crate::version::since;

/// Body fields with the version that first has each.
const FIELDS: [(&str, u16); 7] = [
    ("callback_url", since::RAMDISK),
    ("agent_version", since::AGENT_VERSION),
    ("version", since::AGENT_VERSION),
    // Taken since agents say their version, though looked up only later.
    ("agent_token", since::AGENT_VERSION),
    ("agent_verify_ca", since::AGENT_VERIFY_CA),
    ("agent_status", since::AGENT_STATUS),
    ("agent_status_message", since::AGENT_STATUS),
];

/// Routes of this file.
pub(crate) fn router() -> Routes {
    Routes::new().route("/v1/heartbeat/{ident}", post(heartbeat))
}

async fn heartbeat(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<StatusCode> {
    context.endpoint(since::RAMDISK)?;
    let (parts, body) = request.into_parts();
    let given = body::object(&parts.headers, body, body::ORDINARY).await?;
    check_fields(&given, &context)?;
    let heartbeat: Heartbeat = serde_json::from_value(Value::Object(given)).map_err(|_| {
        ApiError::bad_request("Expected callback_url and only strings in a heartbeat")
    })?;
    if let Err(refused) = check_form(&heartbeat) {
        // A node that is not there comes first.
        nodes::find(&state, &context, &ident).await?;
        return Err(refused);
    }
    // The conductor finds the node and knows its agent's URL and token: most
    // agents call by UUID, and then nothing is read twice.
    let node = match ident.parse::<Uuid>() {
        Ok(uuid) => uuid,
        Err(_) => nodes::find(&state, &context, &ident).await?.uuid,
    };
    state.conductor.heartbeat(node, heartbeat).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Fields that are unknown or too new for the version are refused with 400.
fn check_fields(given: &Map<String, Value>, context: &Context) -> Result<()> {
    for key in given.keys() {
        let known = FIELDS.iter().find(|(name, _)| name == key);
        let (name, since) =
            known.ok_or_else(|| ApiError::bad_request(format!("Unexpected arguments: {key}")))?;
        if !context.has(*since) {
            return Err(ApiError::bad_request(format!(
                "Field \"{name}\" needs API version 1.{since} or later"
            )));
        }
    }
    if !given.contains_key("callback_url") {
        return Err(ApiError::bad_request(
            "Missing mandatory argument: callback_url",
        ));
    }
    Ok(())
}

/// The URL must be one of HTTP (an installer may send none), and there must be
/// a token.
fn check_form(heartbeat: &Heartbeat) -> Result<()> {
    let url = heartbeat.callback_url.as_str();
    if !url.is_empty() && !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(ApiError::bad_request(
            "An invalid callback_url was provided: expected http or https",
        ));
    }
    if heartbeat.agent_token.is_none() {
        return Err(ApiError::bad_request(
            "Agent token is required for heartbeat processing.",
        ));
    }
    if let Some(status) = &heartbeat.agent_status
        && !matches!(status.as_str(), "start" | "end" | "error")
    {
        return Err(ApiError::bad_request(format!(
            "agent_status must be start, end or error, found {status:?}"
        )));
    }
    Ok(())
}
