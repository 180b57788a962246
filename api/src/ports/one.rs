//! `POST /v1/ports` and `/v1/ports/{ident}`.

use axum::Json;
use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::Uri;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;
use axum::response::Response;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_store::Port;
use wrought_wire::state::ProvisionState;

use super::change;
use super::fields;
use super::render;
use crate::ApiState;
use crate::again::Attempts;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::links;
use crate::nodes;
use crate::patch::Patch;
use crate::query::Query;
use crate::version::since;

/// Makes a port.
pub(crate) async fn create(
    State(state): State<ApiState>,
    context: Context,
    request: Request,
) -> Result<Response> {
    Query::read(request.uri(), &context, &[])?;
    let (parts, body) = request.into_parts();
    let mut given = body::object(&parts.headers, body, body::ORDINARY).await?;
    let known =
        |key: &str| matches!(key, "uuid" | "node_ident") || fields::CHANGEABLE.contains(&key);
    if let Some(key) = given.keys().find(|key| !known(key)) {
        return Err(ApiError::bad_request(format!(
            "Schema error for port: Additional properties are not allowed ('{key}' was unexpected)"
        )));
    }
    for key in given.keys() {
        fields::check_version(&context, key)?;
    }
    if given.contains_key("node_ident") {
        context.needs("The field node_ident", since::PORT_NODE_IDENT)?;
    }
    let uuid = uuid(given.remove("uuid"))?;
    let node_uuid = node(&state, &context, &mut given).await?;
    if !given.contains_key("address") {
        return Err(ApiError::bad_request(
            "Schema error for port: 'address' is a required property",
        ));
    }
    let mut port = Port::new(node_uuid, "");
    port.uuid = uuid;
    for (key, value) in given {
        change::set(&mut port, &key, value)?;
    }
    change::check(&port)?;
    let port = state.conductor.create_port(port).await?;
    let location = links::location(&context, &format!("ports/{}", port.uuid));
    let shown = render::port(&port, None, &context);
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(shown)).into_response())
}

/// Shows a port.
pub(crate) async fn show(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    let query = Query::read(&uri, &context, &[("fields", since::FIELDS)])?;
    let fields = fields::requested(&query, &context)?;
    let port = find(&state, &context, &ident).await?;
    Ok(Json(render::port(&port, fields.as_deref(), &context)))
}

/// Changes a port.
pub(crate) async fn update(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<Json<Value>> {
    Query::read(request.uri(), &context, &[])?;
    let (parts, body) = request.into_parts();
    let patch = body::json(&parts.headers, body, body::ORDINARY).await?;
    let patch = Patch::read(&patch, &context)?;
    for root in patch.roots() {
        if !fields::CHANGEABLE.contains(&root) {
            return Err(ApiError::bad_request(format!(
                "Cannot patch /{root}. Only the following can be updated: {}",
                fields::CHANGEABLE.join(", ")
            )));
        }
        fields::check_version(&context, root)?;
    }
    let mut attempts = Attempts::default();
    let port = loop {
        let mut port = find(&state, &context, &ident).await?;
        let node = state.store.node_by_uuid(port.node_uuid).await?;
        let inspecting =
            node.is_some_and(|node| node.provision_state == ProvisionState::Inspecting);
        if inspecting && context.has(since::INSPECT_WAIT) {
            return Err(ApiError::conflict(format!(
                "Port {} can not be updated while its node is being inspected.",
                port.uuid
            )));
        }
        if !apply(&mut port, &patch)? {
            break port;
        }
        match state.conductor.update_port(port).await {
            Err(error) if attempts.again(&error) => {}
            outcome => break outcome?,
        }
    };
    Ok(Json(render::port(&port, None, &context)))
}

/// Deletes a port, by UUID only.
pub(crate) async fn delete(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<StatusCode> {
    Query::read(&uri, &context, &[])?;
    let uuid: Uuid = ident
        .parse()
        .map_err(|_| ApiError::bad_request(format!("Expected UUID for port_uuid: {ident}")))?;
    state
        .store
        .port(uuid)
        .await?
        .ok_or_else(|| missing(&ident))?;
    state.conductor.destroy_port(uuid).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn apply(port: &mut Port, patch: &Patch) -> Result<bool> {
    let mut document: Map<String, Value> = fields::CHANGEABLE
        .iter()
        .map(|field| ((*field).to_owned(), change::get(port, field)))
        .collect();
    patch.apply(&mut document)?;
    let mut changed = false;
    for root in patch.roots() {
        let before = change::get(port, root);
        let value = document.remove(root).unwrap_or_default();
        if root == "node_uuid" {
            if value != before {
                return Err(ApiError::bad_request(
                    "A port cannot be moved to another node",
                ));
            }
            continue;
        }
        change::set(port, root, value)?;
        changed |= change::get(port, root) != before;
    }
    change::check(port)?;
    Ok(changed)
}

async fn find(state: &ApiState, context: &Context, ident: &str) -> Result<Port> {
    let port = match ident.parse::<Uuid>() {
        Ok(uuid) => state.store.port(uuid).await?,
        Err(_) if context.has(since::PORT_NAMES) => state.store.port_by_ident(ident).await?,
        Err(_) => None,
    };
    port.ok_or_else(|| missing(ident))
}

fn missing(ident: &str) -> ApiError {
    ApiError::not_found(format!("Port {ident} could not be found."))
}

fn uuid(given: Option<Value>) -> Result<Uuid> {
    match given {
        None | Some(Value::Null) => Ok(Uuid::new_v4()),
        Some(Value::String(text)) => text
            .parse()
            .map_err(|_| ApiError::bad_request(format!("Expected UUID for uuid: {text}"))),
        Some(_) => Err(ApiError::bad_request(
            "Expected UUID for uuid, found another type",
        )),
    }
}

/// The node that the body names, by UUID or (1.94) by name.
async fn node(state: &ApiState, context: &Context, given: &mut Map<String, Value>) -> Result<Uuid> {
    let named = (given.remove("node_uuid"), given.remove("node_ident"));
    let ident = match &named {
        (Some(Value::String(uuid)), None) => {
            uuid.parse::<Uuid>().map_err(|_| {
                ApiError::bad_request(format!("Expected UUID for node_uuid: {uuid}"))
            })?;
            uuid
        }
        (None, Some(Value::String(ident))) => ident,
        (Some(_), Some(_)) => {
            return Err(ApiError::bad_request(
                "node_uuid and node_ident exclude each other",
            ));
        }
        _ => {
            return Err(ApiError::bad_request(
                "Schema error for port: 'node_uuid' is a required property",
            ));
        }
    };
    let node = nodes::find(state, context, ident)
        .await
        .map_err(ApiError::into_bad_request)?;
    Ok(node.uuid)
}
