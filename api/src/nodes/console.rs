//! `/v1/nodes/{ident}/states/console`.

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

use crate::ApiState;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::links;
use crate::query::Query;
use crate::value;

/// Whether it is on, and how it is reached.
pub(crate) async fn show(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    Query::read(&uri, &context, &[])?;
    let node = super::find(&state, &context, &ident).await?;
    let info = state.conductor.console(node.uuid).await?;
    Ok(Json(
        json!({"console_enabled": info.is_some(), "console_info": info}),
    ))
}

/// Starts switching it.
pub(crate) async fn set(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<Response> {
    Query::read(request.uri(), &context, &[])?;
    let (parts, body) = request.into_parts();
    let given = body::object(&parts.headers, body, body::ORDINARY).await?;
    body::only(&given, &["enabled"])?;
    let on = given
        .get("enabled")
        .ok_or_else(|| ApiError::missing("enabled"))?;
    let on = value::word("enabled", on)?;
    let node = super::find(&state, &context, &ident).await?;
    state.conductor.set_console(node.uuid, on).await?;
    let location = links::location(&context, &format!("nodes/{}/states/console", node.uuid));
    Ok((StatusCode::ACCEPTED, [(LOCATION, location)]).into_response())
}
