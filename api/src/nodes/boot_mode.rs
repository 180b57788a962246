//! `PUT /v1/nodes/{ident}/states/boot_mode` and `…/secure_boot`.

use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::response::Response;
use serde_json::Map;
use serde_json::Value;
use wrought_wire::state::BootMode;

use super::states::accepted;
use crate::ApiState;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::query::Query;
use crate::value;
use crate::version::since;

/// Starts a change of the boot mode.
pub(crate) async fn set(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<Response> {
    let given = read(&context, request).await?;
    let mode: BootMode = match target(&given)? {
        Value::String(word) => word.parse().map_err(|_| {
            ApiError::bad_request(format!(
                "Invalid boot mode {word} requested for node. Allowed boot modes are: bios, uefi"
            ))
        })?,
        other => {
            let text = format!("Expected string for target: {other}");
            return Err(ApiError::bad_request(text));
        }
    };
    supported(&context)?;
    let node = super::find(&state, &context, &ident).await?;
    state.conductor.change_boot_mode(node.uuid, mode).await?;
    Ok(accepted(&context, node.uuid))
}

/// Starts a change of secure boot.
pub(crate) async fn set_secure(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<Response> {
    let given = read(&context, request).await?;
    let on = value::word("target", target(&given)?)?;
    supported(&context)?;
    let node = super::find(&state, &context, &ident).await?;
    state.conductor.change_secure_boot(node.uuid, on).await?;
    Ok(accepted(&context, node.uuid))
}

async fn read(context: &Context, request: Request) -> Result<Map<String, Value>> {
    Query::read(request.uri(), context, &[])?;
    let (parts, body) = request.into_parts();
    let given = body::object(&parts.headers, body, body::ORDINARY).await?;
    body::only(&given, &["target"])?;
    Ok(given)
}

fn target(given: &Map<String, Value>) -> Result<&Value> {
    given
        .get("target")
        .ok_or_else(|| ApiError::missing("target"))
}

fn supported(context: &Context) -> Result<()> {
    if context.has(since::SET_BOOT_MODE) {
        return Ok(());
    }
    Err(ApiError::not_found(
        "This endpoint is supported starting with the API version 1.76",
    ))
}
