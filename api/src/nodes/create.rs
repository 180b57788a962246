//! `POST /v1/nodes`.

use axum::extract::Request;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;
use axum::response::Response;
use serde_json::Map;
use serde_json::Value;
use wrought_store::Node;
use wrought_wire::state::ProvisionState;

use super::change;
use super::fields;
use super::render::Renderer;
use super::update;
use crate::ApiState;
use crate::answer;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::links;
use crate::query::Query;
use crate::version::since;

/// Makes a node.
pub(crate) async fn create(
    State(state): State<ApiState>,
    context: Context,
    request: Request,
) -> Result<Response> {
    Query::read(request.uri(), &context, &[])?;
    let (parts, body) = request.into_parts();
    let given = body::object(&parts.headers, body, body::ORDINARY).await?;
    let mut node = parse(given, &context)?;
    update::settle(&state, &context, &mut node).await?;
    let node = state.conductor.create_node(node).await?;
    let location = links::location(&context, &format!("nodes/{}", node.uuid));
    let renderer = Renderer::new(&state, &context, None);
    let shown = answer::json(&renderer.node(&node))?;
    Ok((StatusCode::CREATED, [(LOCATION, location)], shown).into_response())
}

fn parse(given: Map<String, Value>, context: &Context) -> Result<Node> {
    let known = |key: &str| key == "uuid" || fields::CHANGEABLE.contains(&key);
    if let Some(key) = given.keys().find(|key| !known(key)) {
        return Err(ApiError::bad_request(format!(
            "Schema error for node: Additional properties are not allowed ('{key}' was unexpected)"
        )));
    }
    for key in given.keys() {
        fields::check_version(context, key)?;
    }
    if !given.contains_key("driver") {
        return Err(ApiError::bad_request(
            "Schema error for node: 'driver' is a required property",
        ));
    }
    for key in ["protected", "protected_reason"] {
        if given.contains_key(key) {
            return Err(ApiError::bad_request(format!(
                "{key} cannot be set when a node is created"
            )));
        }
    }
    let mut node = Node::new("");
    match given.get("uuid") {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => {
            node.uuid = text
                .parse()
                .map_err(|_| ApiError::bad_request(format!("Expected UUID for uuid: {text}")))?;
        }
        Some(_) => {
            return Err(ApiError::bad_request(
                "Expected UUID for uuid, found another type",
            ));
        }
    }
    if !context.has(since::ENROLL) {
        node.provision_state = ProvisionState::Available;
    }
    for (key, value) in given {
        if key != "uuid" {
            change::set(&mut node, &key, value, context)?;
        }
    }
    Ok(node)
}
