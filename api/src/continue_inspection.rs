//! `POST /v1/continue_inspection`: a ramdisk says what it found. Nobody has to
//! authenticate here; what is sent is bounded, and only nodes that wait for it
//! are found by it.

use axum::Json;
use axum::extract::Request;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::Value;
use serde_json::json;
use tokio::sync::Semaphore;
use wrought_store::Inventory;

use crate::ApiState;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::lookup;
use crate::query::Query;
use crate::routes::Routes;
use crate::version::since;

/// Bodies that are taken apart at the same time: anybody may send them, and
/// they are far larger in memory than as text.
static TURNS: Semaphore = Semaphore::const_new(2);

/// Routes of this file.
pub(crate) fn router() -> Routes {
    Routes::new().route("/v1/continue_inspection", post(continue_inspection))
}

async fn continue_inspection(
    State(state): State<ApiState>,
    context: Context,
    request: Request,
) -> Result<(StatusCode, Json<Value>)> {
    let query = Query::read(request.uri(), &context, &[("node_uuid", 1)])?;
    let node = query.uuid("node_uuid")?;
    let (parts, body) = request.into_parts();
    let bytes = body::bytes(&parts.headers, body, body::INSPECTION).await?;
    // The semaphore is never closed.
    let _turn = TURNS.acquire().await;
    let Some(Value::Object(mut given)) = body::parse(&bytes)? else {
        return Err(ApiError::bad_request(
            "Expected a JSON object as the request body",
        ));
    };
    drop(bytes);
    let Some(Value::Object(inventory)) = given.remove("inventory") else {
        return Err(ApiError::bad_request("Expected an object for inventory"));
    };
    let interfaces = inventory.get("interfaces").and_then(Value::as_array);
    let has_address = |nic: &Value| nic.get("mac_address").is_some_and(Value::is_string);
    if !interfaces.is_some_and(|nics| !nics.is_empty() && nics.iter().all(has_address)) {
        return Err(ApiError::bad_request(
            "Expected at least one interface in inventory.interfaces, each with a mac_address",
        ));
    }
    // Ramdisks older than the endpoint send no version at all.
    let is_old = context.version.0 == 1;
    if !is_old || node.is_some() {
        context.endpoint(since::CONTINUE_INSPECTION)?;
    }
    let found = Inventory {
        inventory,
        plugin_data: given,
    };
    let inspected = state.conductor.continue_inspection(node, found).await?;
    let shown = match is_old {
        true => json!({"uuid": inspected.node.uuid}),
        false => lookup::answer(&inspected.node, inspected.config, &context),
    };
    Ok((StatusCode::ACCEPTED, Json(shown)))
}
