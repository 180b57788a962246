//! `GET /v1/shards`: how many nodes each shard has.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::routing::get;
use serde_json::Value;
use serde_json::json;

use crate::ApiState;
use crate::context::Context;
use crate::error::Result;
use crate::query::Query;
use crate::routes::Routes;
use crate::version::since;

/// Routes of this file.
pub(crate) fn router() -> Routes {
    Routes::new().route("/v1/shards", get(list))
}

async fn list(State(state): State<ApiState>, context: Context, uri: Uri) -> Result<Json<Value>> {
    context.endpoint(since::SHARDS)?;
    Query::read(&uri, &context, &[])?;
    // Nodes without a shard are counted under the name that clients know.
    let shards: Vec<Value> = state
        .store
        .shards()
        .await?
        .into_iter()
        .map(|(name, count)| json!({"name": name.as_deref().unwrap_or("None"), "count": count}))
        .collect();
    Ok(Json(json!({"shards": shards})))
}
