//! `/v1/nodes/{ident}/management/boot_device` and `…/inject_nmi`.

use axum::Json;
use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value;
use serde_json::json;
use wrought_wire::state::BootDevice;

use crate::ApiState;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::query::Query;
use crate::version::since;

/// Reads the boot device from the BMC.
pub(crate) async fn boot_device(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
) -> Result<Json<Value>> {
    let node = super::find(&state, &context, &ident).await?;
    Ok(Json(json!(state.conductor.boot_device(node.uuid).await?)))
}

/// Boot devices that can be set.
pub(crate) async fn supported(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
) -> Result<Json<Value>> {
    let node = super::find(&state, &context, &ident).await?;
    let devices = state.conductor.supported_boot_devices(node.uuid).await?;
    Ok(Json(json!({"supported_boot_devices": devices})))
}

/// Sets the boot device.
pub(crate) async fn set_boot_device(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<StatusCode> {
    let (parts, body) = request.into_parts();
    let given = body::object(&parts.headers, body, body::ORDINARY).await?;
    body::only(&given, &["boot_device", "persistent"])?;
    let device = match given.get("boot_device") {
        Some(Value::String(name)) => name
            .parse::<BootDevice>()
            .map_err(|_| ApiError::bad_request(format!("Invalid boot device {name} specified.")))?,
        _ => {
            return Err(ApiError::bad_request(
                "Missing mandatory argument: boot_device",
            ));
        }
    };
    let persistent = match given.get("persistent") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(flag)) => *flag,
        Some(_) => {
            return Err(ApiError::bad_request(
                "Expected true or false for persistent",
            ));
        }
    };
    let node = super::find(&state, &context, &ident).await?;
    state
        .conductor
        .set_boot_device(node.uuid, device, persistent)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sends a non-maskable interrupt.
pub(crate) async fn inject_nmi(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<StatusCode> {
    context.endpoint(since::INJECT_NMI)?;
    Query::read(request.uri(), &context, &[])?;
    let (parts, body) = request.into_parts();
    match body::maybe_json(&parts.headers, body, body::ORDINARY).await? {
        None | Some(Value::Null) => {}
        Some(Value::Object(given)) => body::only(&given, &[])?,
        Some(_) => return Err(ApiError::bad_request("Expected an empty JSON object")),
    }
    let node = super::find(&state, &context, &ident).await?;
    state.conductor.inject_nmi(node.uuid).await?;
    Ok(StatusCode::NO_CONTENT)
}
