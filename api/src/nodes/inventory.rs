//! `GET /v1/nodes/{ident}/inventory`: what the last inspection found.

use axum::Json;
use axum::extract::Path;
use axum::extract::State;
use axum::http::Uri;
use wrought_store::Inventory;

use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::query::Query;
use crate::version::since;

/// Shows it.
pub(crate) async fn show(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Inventory>> {
    context.endpoint(since::INVENTORY)?;
    Query::read(&uri, &context, &[])?;
    let node = super::find(&state, &context, &ident).await?.uuid;
    let found = state.store.inventory(node).await?;
    found.map(Json).ok_or_else(|| {
        ApiError::not_found(format!(
            "Node inventory record for node {node} could not be found."
        ))
    })
}
