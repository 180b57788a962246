//! `/v1/nodes/{ident}/traits`.

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
use uuid::Uuid;
use wrought_store::Node;

use crate::ApiState;
use crate::again::Attempts;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::links;
use crate::traits;
use crate::version::since;

/// Lists them.
pub(crate) async fn list(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
) -> Result<Json<Value>> {
    context.needs("traits", since::TRAITS)?;
    let node = find(&state, &context, &ident).await?;
    Ok(Json(json!({"traits": node.traits})))
}

/// Replaces them all.
pub(crate) async fn replace(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<StatusCode> {
    context.writable(since::TRAITS)?;
    let traits = traits::read(request).await?;
    store(&state, &context, &ident, |_| Ok(traits.clone())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes them all.
pub(crate) async fn clear(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
) -> Result<StatusCode> {
    store(&state, &context, &ident, |_| Ok(Vec::new())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Adds one.
pub(crate) async fn add(
    State(state): State<ApiState>,
    context: Context,
    Path((ident, name)): Path<(String, String)>,
    request: Request,
) -> Result<Response> {
    context.writable(since::TRAITS)?;
    traits::no_body(request).await?;
    traits::check(&name)?;
    let node = store(&state, &context, &ident, |node| {
        let mut traits = node.traits.clone();
        traits.push(name.clone());
        Ok(traits)
    })
    .await?;
    let location = links::location(&context, &format!("nodes/{node}/traits/{name}"));
    Ok((StatusCode::NO_CONTENT, [(LOCATION, location)]).into_response())
}

/// Removes one.
pub(crate) async fn remove(
    State(state): State<ApiState>,
    context: Context,
    Path((ident, name)): Path<(String, String)>,
) -> Result<StatusCode> {
    store(&state, &context, &ident, |node| {
        let mut traits = node.traits.clone();
        traits.retain(|other| *other != name);
        if traits.len() == node.traits.len() {
            return Err(ApiError::not_found(format!(
                "Node {} doesn't have a trait '{name}'",
                node.uuid
            )));
        }
        Ok(traits)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn find(state: &ApiState, context: &Context, ident: &str) -> Result<Node> {
    context.endpoint(since::TRAITS)?;
    super::find(state, context, ident).await
}

/// Stores what `wanted` makes of the node's traits; gives the node.
async fn store(
    state: &ApiState,
    context: &Context,
    ident: &str,
    wanted: impl Fn(&Node) -> Result<Vec<String>> + Send,
) -> Result<Uuid> {
    let mut attempts = Attempts::default();
    loop {
        let mut node = find(state, context, ident).await?;
        let traits = traits::ordered(wanted(&node)?)?;
        let uuid = node.uuid;
        if traits == node.traits {
            return Ok(uuid);
        }
        node.traits = traits;
        let fields = vec!["traits".to_owned()];
        match state.conductor.update_node(node, fields, false).await {
            Err(error) if attempts.again(&error) => {}
            outcome => {
                outcome?;
                return Ok(uuid);
            }
        }
    }
}
