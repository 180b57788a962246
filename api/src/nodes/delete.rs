//! `DELETE /v1/nodes/{ident}`.

use axum::extract::Path;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::Uri;

use crate::ApiState;
use crate::context::Context;
use crate::error::Result;
use crate::query::Query;

/// Deletes a node; whether its state allows it is the conductor's to say.
pub(crate) async fn delete(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<StatusCode> {
    Query::read(&uri, &context, &[])?;
    let node = super::find(&state, &context, &ident).await?;
    state.conductor.destroy_node(node.uuid).await?;
    Ok(StatusCode::NO_CONTENT)
}
