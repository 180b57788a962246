//! Handlers of single resources.

use axum::Json;
use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::Uri;
use axum::response::Response;
use serde_json::Value;
use uuid::Uuid;

use super::Resource;
use super::change;
use super::find;
use super::no_uuid;
use super::shown;
use crate::ApiState;
use crate::context::Context;
use crate::error::Result;
use crate::nodes;
use crate::query::Query;
use crate::version::since;

/// Makes one.
pub(super) async fn create<R: Resource>(
    State(state): State<ApiState>,
    context: Context,
    request: Request,
) -> Result<Response> {
    R::gate(&context, true)?;
    let given = change::read_new(request, &context).await?;
    let one: R = change::parse(given, &context)?;
    change::store_new(&state, &context, one).await
}

/// Shows one, cut to `?fields=`.
pub(crate) async fn show<R: Resource>(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    R::gate(&context, false)?;
    let query = Query::read(&uri, &context, &[("fields", since::FIELDS)])?;
    let fields = R::requested(&query, &context)?;
    let one: R = find(&state, &context, &ident).await?;
    Ok(Json(shown(&one, fields.as_deref(), &context)))
}

/// Changes one.
pub(super) async fn update<R: Resource>(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<Json<Value>> {
    R::gate_since(&context, R::CHANGES)?;
    let patch = change::read_patch::<R>(request, &context).await?;
    let one: R = find(&state, &context, &ident).await?;
    if let Some(node) = one.inspected_with() {
        nodes::not_inspecting(&state, &context, node, R::NOUN.0).await?;
    }
    let edit = |one: &mut R| change::apply(one, &patch, &context);
    let one = change::change(&state, &context, &ident, edit).await?;
    Ok(Json(shown(&one, None, &context)))
}

/// Deletes one.
pub(crate) async fn delete<R: Resource>(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<StatusCode> {
    R::gate(&context, true)?;
    Query::read(&uri, &context, &[])?;
    if !R::DELETE_BY_NAME && ident.parse::<Uuid>().is_err() {
        return Err(no_uuid::<R>(&ident));
    }
    let one: R = find(&state, &context, &ident).await?;
    state.conductor.destroy_record(one.into()).await?;
    Ok(StatusCode::NO_CONTENT)
}
