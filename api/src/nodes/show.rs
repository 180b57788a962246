//! `GET /v1/nodes/{ident}`.

use axum::extract::Path;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;

use super::fields;
use super::queue;
use super::render::Renderer;
use crate::ApiState;
use crate::answer;
use crate::context::Context;
use crate::error::Result;
use crate::query::Query;
use crate::version::since;

/// Shows one node.
pub(crate) async fn show(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Response> {
    let query = Query::read(&uri, &context, &[("fields", since::FIELDS)])?;
    let fields = fields::requested(&query, &context)?;
    let node = super::find(&state, &context, &ident).await?;
    let node = queue::place(&state, node).await?;
    let renderer = Renderer::new(&state, &context, fields);
    answer::json(&renderer.node(&node))
}
