//! `/v1/nodes/{ident}/management/indicators`.

use axum::Json;
use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::Uri;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_rpc::Indicator;
use wrought_wire::state::IndicatorState;

use crate::ApiState;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::links;
use crate::query::Query;

/// Lists them.
pub(crate) async fn list(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    Query::read(&uri, &context, &[])?;
    let node = super::find(&state, &context, &ident).await?;
    let indicators = state.conductor.indicators(node.uuid).await?;
    let shown: Vec<Value> = indicators
        .iter()
        .map(|indicator| render(node.uuid, indicator, &context))
        .collect();
    Ok(Json(json!({"indicators": shown})))
}

fn render(node: Uuid, indicator: &Indicator, context: &Context) -> Value {
    let name = format!("{}@{}", indicator.name, indicator.component);
    let resource = format!("nodes/{node}/management/indicators/{name}");
    json!({
        "name": name,
        "component": indicator.component,
        "readonly": indicator.readonly,
        "states": indicator.states,
        "links": links::links(context, &resource),
    })
}

/// Shows the state of one.
pub(crate) async fn show(
    State(state): State<ApiState>,
    context: Context,
    Path((ident, indicator)): Path<(String, String)>,
    uri: Uri,
) -> Result<Json<Value>> {
    Query::read(&uri, &context, &[])?;
    let (name, component) = parts(&indicator)?;
    let node = super::find(&state, &context, &ident).await?;
    let found = state
        .conductor
        .indicator(node.uuid, component, name)
        .await?;
    Ok(Json(json!({"state": found})))
}

/// Sets one.
pub(crate) async fn set(
    State(state): State<ApiState>,
    context: Context,
    Path((ident, indicator)): Path<(String, String)>,
    request: Request,
) -> Result<StatusCode> {
    Query::read(request.uri(), &context, &[])?;
    let (head, body) = request.into_parts();
    let given = body::object(&head.headers, body, body::ORDINARY).await?;
    body::only(&given, &["state"])?;
    let wanted = match given.get("state") {
        Some(Value::String(word)) => word,
        Some(_) => return Err(ApiError::bad_request("Expected string for state")),
        None => return Err(ApiError::missing("state")),
    };
    let wanted: IndicatorState = wanted.to_ascii_lowercase().parse().map_err(|_| {
        ApiError::bad_request(format!(
            "Invalid indicator state {wanted} requested; one of on, off and blinking is expected"
        ))
    })?;
    let (name, component) = parts(&indicator)?;
    let node = super::find(&state, &context, &ident).await?;
    state
        .conductor
        .set_indicator(node.uuid, component, name, wanted)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Name and component of `name@component`.
fn parts(indicator: &str) -> Result<(&str, &str)> {
    let parts = indicator.rsplit_once('@');
    let parts = parts.filter(|(name, component)| !name.is_empty() && !component.is_empty());
    parts.ok_or_else(|| ApiError::bad_request(format!("Malformed indicator name \"{indicator}\"")))
}
