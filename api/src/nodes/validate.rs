//! `GET /v1/nodes/{ident}/validate` and `/v1/nodes/validate?node=`.

use axum::Json;
use axum::extract::Path;
use axum::extract::State;
use axum::http::Uri;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::query::Query;

/// By path.
pub(crate) async fn by_path(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
) -> Result<Json<Value>> {
    validate(&state, &context, &ident).await
}

/// By query argument.
pub(crate) async fn by_query(
    State(state): State<ApiState>,
    context: Context,
    uri: Uri,
) -> Result<Json<Value>> {
    let query = Query::read(&uri, &context, &[("node", 1), ("node_uuid", 1)])?;
    let ident = query
        .text("node")
        .or(query.text("node_uuid"))
        .ok_or_else(|| ApiError::bad_request("Missing mandatory argument: node"))?;
    validate(&state, &context, ident).await
}

async fn validate(state: &ApiState, context: &Context, ident: &str) -> Result<Json<Value>> {
    let node = super::find(state, context, ident).await?;
    let mut body = Map::new();
    for (interface, validation) in state.conductor.validate(node.uuid).await? {
        let mut shown = json!({"result": validation.result.unwrap_or(false)});
        if let Some(reason) = validation.reason {
            shown["reason"] = Value::String(reason);
        }
        body.insert(interface, shown);
    }
    body.remove("vendor");
    Ok(Json(Value::Object(body)))
}
