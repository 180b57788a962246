//! `/v1/runbooks/{ident}/traits`: of which a node must have one.

use axum::Json;
use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;
use axum::response::Response;
use serde_json::Value;
use serde_json::json;
use wrought_store::Runbook;

use crate::ApiState;
use crate::context::Context;
use crate::error::Result;
use crate::links;
use crate::resource;
use crate::traits;
use crate::version::since::RUNBOOK_TRAITS;

/// Lists them.
pub(super) async fn list(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
) -> Result<Json<Value>> {
    context.endpoint(RUNBOOK_TRAITS)?;
    let runbook: Runbook = resource::find(&state, &context, &ident).await?;
    Ok(Json(json!({"traits": runbook.traits})))
}

/// Replaces them all.
pub(super) async fn replace(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<StatusCode> {
    context.endpoint(RUNBOOK_TRAITS)?;
    let wanted = traits::read(request).await?;
    store(&state, &context, &ident, |_| wanted.clone()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes them all.
pub(super) async fn clear(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
) -> Result<StatusCode> {
    context.endpoint(RUNBOOK_TRAITS)?;
    store(&state, &context, &ident, |_| Vec::new()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Adds one.
pub(super) async fn add(
    State(state): State<ApiState>,
    context: Context,
    Path((ident, name)): Path<(String, String)>,
    request: Request,
) -> Result<Response> {
    context.endpoint(RUNBOOK_TRAITS)?;
    traits::no_body(request).await?;
    traits::check(&name)?;
    let runbook = store(&state, &context, &ident, |runbook| {
        let mut traits = runbook.traits.clone();
        traits.push(name.clone());
        traits
    })
    .await?;
    let location = links::location(
        &context,
        &format!("runbooks/{}/traits/{name}", runbook.uuid),
    );
    Ok((StatusCode::NO_CONTENT, [(LOCATION, location)]).into_response())
}

/// Removes one, if it is there.
pub(super) async fn remove(
    State(state): State<ApiState>,
    context: Context,
    Path((ident, name)): Path<(String, String)>,
) -> Result<StatusCode> {
    context.endpoint(RUNBOOK_TRAITS)?;
    store(&state, &context, &ident, |runbook| {
        let traits = runbook.traits.iter();
        traits.filter(|other| **other != name).cloned().collect()
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Stores what `wanted` makes of the traits.
async fn store(
    state: &ApiState,
    context: &Context,
    ident: &str,
    wanted: impl Fn(&Runbook) -> Vec<String>,
) -> Result<Runbook> {
    let edit = |runbook: &mut Runbook| {
        let traits = traits::ordered(wanted(runbook))?;
        let changed = traits != runbook.traits;
        runbook.traits = traits;
        Ok(changed)
    };
    resource::change(state, context, ident, edit).await
}
