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
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::links;
use crate::version::since;

/// Traits of one node, at most.
const MOST: usize = 50;
/// What standard traits begin with, beside `CUSTOM_`.
const NAMESPACES: [&str; 5] = ["CUSTOM_", "COMPUTE_", "HW_", "MISC_", "STORAGE_"];

/// Lists them.
pub(crate) async fn list(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
) -> Result<Json<Value>> {
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
    let (parts, body) = request.into_parts();
    let given = body::object(&parts.headers, body, body::ORDINARY).await?;
    body::only(&given, &["traits"])?;
    let Some(Value::Array(items)) = given.get("traits") else {
        return Err(ApiError::bad_request("Expected an array for traits"));
    };
    let mut traits = Vec::new();
    for item in items {
        let name = item
            .as_str()
            .ok_or_else(|| ApiError::bad_request("Expected strings in traits"))?;
        check(name)?;
        traits.push(name.to_owned());
    }
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
    let (parts, body) = request.into_parts();
    if body::maybe_json(&parts.headers, body, body::ORDINARY)
        .await?
        .is_some()
    {
        return Err(ApiError::bad_request(
            "No body is expected when adding a trait",
        ));
    }
    check(&name)?;
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
        let mut traits = wanted(&node)?;
        traits.sort();
        traits.dedup();
        if traits.len() > MOST {
            return Err(ApiError::bad_request(format!(
                "A node has at most {MOST} traits"
            )));
        }
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

fn check(name: &str) -> Result<()> {
    let word = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let rest = NAMESPACES
        .iter()
        .find_map(|namespace| name.strip_prefix(namespace));
    match rest {
        Some(rest) if !rest.is_empty() && name.len() <= 255 && rest.chars().all(word) => Ok(()),
        _ => Err(ApiError::bad_request(format!(
            "Schema error for trait: '{name}' is neither a standard trait nor does it match '^CUSTOM_[A-Z0-9_]+$'"
        ))),
    }
}
