//! `/v1/nodes/{ident}/vendor_passthru`.

use axum::Json;
use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde_json::Value;
use serde_json::json;

use crate::ApiState;
use crate::context::Context;
use crate::error::Result;
use crate::query::Query;
use crate::vendor;

/// The methods that there are.
pub(crate) async fn methods(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    Query::read(&uri, &context, &[])?;
    let node = super::find(&state, &context, &ident).await?;
    Ok(Json(json!(
        state.conductor.vendor_methods(node.uuid).await?
    )))
}

/// Calls the method that the query names.
pub(crate) async fn by_query(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<Response> {
    call(&state, &context, &ident, None, request).await
}

/// Calls the method that the path names.
pub(crate) async fn by_path(
    State(state): State<ApiState>,
    context: Context,
    Path((ident, method)): Path<(String, String)>,
    request: Request,
) -> Result<Response> {
    call(&state, &context, &ident, Some(method), request).await
}

async fn call(
    state: &ApiState,
    context: &Context,
    ident: &str,
    method: Option<String>,
    request: Request,
) -> Result<Response> {
    let call = vendor::read(context, method, request).await?;
    let node = super::find(state, context, ident).await?;
    let given = state.conductor.vendor_call(node.uuid, call).await?;
    Ok(vendor::answer(given))
}
