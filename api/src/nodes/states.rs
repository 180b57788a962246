//! `GET /v1/nodes/{ident}/states` and `PUT …/states/power`; the other states
//! have files of their own.

use axum::Json;
use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::Uri;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;
use axum::response::Response;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_wire::state::PowerTarget;
use wrought_wire::state::ProvisionState;

use super::render::provision_state;
use crate::ApiState;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::links;
use crate::query::Query;
use crate::time;
use crate::version::since;

/// Shows the states of a node.
pub(crate) async fn show(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    Query::read(&uri, &context, &[])?;
    let node = super::find(&state, &context, &ident).await?;
    let mut shown = json!({
        "console_enabled": node.console_enabled,
        "last_error": node.last_error,
        "power_state": node.power_state,
        "provision_state": provision_state(&context, node.provision_state),
        "target_power_state": node.target_power_state,
        "target_provision_state": node.target_provision_state,
        "provision_updated_at": time::value(node.provision_updated_at),
    });
    if context.has(since::RAID) {
        shown["raid_config"] = json!(node.raid_config);
        shown["target_raid_config"] = json!(node.target_raid_config);
    }
    if context.has(since::BOOT_MODE) {
        shown["boot_mode"] = json!(node.boot_mode);
        shown["secure_boot"] = json!(node.secure_boot);
    }
    Ok(Json(shown))
}

/// Starts a power change.
pub(crate) async fn power(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let given = body::object(&parts.headers, body, body::ORDINARY).await?;
    body::only(&given, &["target", "timeout"])?;
    if given.get("timeout").is_some_and(|value| !value.is_null()) {
        context.needs("timeout", since::SOFT_POWER)?;
    }
    let target = match given.get("target") {
        Some(Value::String(target)) => target.parse::<PowerTarget>().map_err(|_| {
            ApiError::bad_request(format!(
                "Invalid power target {target:?}; one of {:?} is expected",
                PowerTarget::ALL
            ))
        })?,
        _ => return Err(ApiError::bad_request("Missing mandatory argument: target")),
    };
    if matches!(target, PowerTarget::SoftOff | PowerTarget::SoftReboot) {
        context.needs(target.as_str(), since::SOFT_POWER)?;
    }
    let timeout = match given.get("timeout") {
        None | Some(Value::Null) => None,
        Some(value) => Some(positive(value)?),
    };
    let node = super::find(&state, &context, &ident).await?;
    if matches!(
        node.provision_state,
        ProvisionState::Cleaning | ProvisionState::CleanWait
    ) {
        return Err(ApiError::bad_request(format!(
            "The requested action \"{target}\" can not be performed on node \"{}\" while it is in state \"{}\".",
            node.uuid, node.provision_state
        )));
    }
    if node.disable_power_off && target != PowerTarget::On {
        return Err(ApiError::conflict(format!(
            "Node {} must not be powered off (disable_power_off), so \"{target}\" is refused.",
            node.uuid
        )));
    }
    state
        .conductor
        .change_power(node.uuid, target, timeout)
        .await?;
    Ok(accepted(&context, node.uuid))
}

fn positive(value: &Value) -> Result<u32> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| *number > 0)
        .ok_or_else(|| ApiError::bad_request("timeout has to be positive integer"))
}

/// 202 with the place where the outcome will show.
pub(crate) fn accepted(context: &Context, node: Uuid) -> Response {
    let location = links::location(context, &format!("nodes/{node}/states"));
    (StatusCode::ACCEPTED, [(LOCATION, location)]).into_response()
}
