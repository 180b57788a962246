//! `PUT` and `DELETE /v1/nodes/{ident}/maintenance`.

use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value;

use crate::ApiState;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::value::Noun;

/// Longest reason, in characters.
const LONGEST: usize = 4096;

/// Switches maintenance on, with a reason if there is one.
pub(crate) async fn set(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<StatusCode> {
    let (parts, body) = request.into_parts();
    let reason = match body::maybe_json(&parts.headers, body, body::ORDINARY).await? {
        None | Some(Value::Null) => None,
        Some(Value::Object(given)) => {
            body::only(&given, &["reason"])?;
            let reason = given.get("reason").cloned().unwrap_or_default();
            Noun("maintenance").text("reason", reason, LONGEST)?
        }
        Some(_) => {
            return Err(ApiError::bad_request(
                "Expected a JSON object with a reason",
            ));
        }
    };
    let node = super::find(&state, &context, &ident).await?;
    state
        .conductor
        .set_maintenance(node.uuid, true, reason)
        .await?;
    Ok(StatusCode::ACCEPTED)
}

/// Switches maintenance off.
pub(crate) async fn unset(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
) -> Result<StatusCode> {
    let node = super::find(&state, &context, &ident).await?;
    state
        .conductor
        .set_maintenance(node.uuid, false, None)
        .await?;
    Ok(StatusCode::ACCEPTED)
}
