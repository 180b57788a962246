//! `/v1/volume`: connectors and targets, of all nodes and of one.

mod connectors;
mod targets;

use axum::Json;
use axum::extract::Path;
use axum::extract::State;
use axum::http::Uri;
use axum::routing::any;
use axum::routing::get;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;

use crate::ApiState;
use crate::context::Context;
use crate::error::Result;
use crate::links;
use crate::nodes;
use crate::query::Known;
use crate::query::Query;
use crate::resource::nested;
use crate::routes::Routes;
use crate::version::since::VOLUME;

/// Filters of both lists.
pub(crate) const FILTERS: &[Known] = &[("node", VOLUME)];

/// Routes of this folder.
pub(crate) fn router() -> Routes {
    Routes::new()
        .route("/v1/volume", get(root))
        .route("/v1/nodes/{ident}/volume", get(of_node))
        .merge(connectors::router())
        .merge(targets::router())
        .refused(
            "/v1/nodes/{ident}/volume/connectors/{connector}",
            any(nested),
        )
        .refused("/v1/nodes/{ident}/volume/targets/{target}", any(nested))
}

async fn root(context: Context, uri: Uri) -> Result<Json<Value>> {
    context.endpoint(VOLUME)?;
    Query::read(&uri, &context, &[])?;
    Ok(Json(index(&context, "volume")))
}

async fn of_node(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    context.endpoint(VOLUME)?;
    Query::read(&uri, &context, &[])?;
    let node = nodes::find(&state, &context, &ident).await?.uuid;
    Ok(Json(index(&context, &format!("nodes/{node}/volume"))))
}

fn index(context: &Context, path: &str) -> Value {
    json!({
        "links": links::links(context, &format!("{path}/")),
        "connectors": links::links(context, &format!("{path}/connectors")),
        "targets": links::links(context, &format!("{path}/targets")),
    })
}

/// The node that `?node=` names.
async fn filtered(state: &ApiState, context: &Context, query: &Query) -> Result<Option<Uuid>> {
    match query.text("node") {
        Some(ident) => Ok(Some(nodes::find(state, context, ident).await?.uuid)),
        None => Ok(None),
    }
}
