//! `POST /v1/nodes`.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Request;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;
use axum::response::Response;
use jiff::Timestamp;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_store::Node;
use wrought_wire::state::ProvisionState;

use super::change;
use super::fields;
use super::render::Renderer;
use super::update;
use crate::ApiState;
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
    let shown = Renderer::new(&state, &context, None).node(&node);
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(shown)).into_response())
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
    let uuid = match given.get("uuid") {
        None | Some(Value::Null) => Uuid::new_v4(),
        Some(Value::String(text)) => text
            .parse()
            .map_err(|_| ApiError::bad_request(format!("Expected UUID for uuid: {text}")))?,
        Some(_) => {
            return Err(ApiError::bad_request(
                "Expected UUID for uuid, found another type",
            ));
        }
    };
    let state = match context.has(since::ENROLL) {
        true => ProvisionState::Enroll,
        false => ProvisionState::Available,
    };
    let mut node = empty(uuid, state);
    for (key, value) in given {
        if key != "uuid" {
            change::set(&mut node, &key, value, context)?;
        }
    }
    Ok(node)
}

fn empty(uuid: Uuid, provision_state: ProvisionState) -> Node {
    Node {
        uuid,
        name: None,
        driver: String::new(),
        driver_info: Map::new(),
        driver_internal_info: Map::new(),
        properties: Map::new(),
        instance_info: Map::new(),
        instance_uuid: None,
        instance_name: None,
        extra: Map::new(),
        clean_step: Map::new(),
        deploy_step: Map::new(),
        service_step: Map::new(),
        raid_config: Map::new(),
        target_raid_config: Map::new(),
        reservation: None,
        conductor_group: String::new(),
        power_state: None,
        target_power_state: None,
        provision_state,
        target_provision_state: None,
        provision_updated_at: None,
        maintenance: false,
        maintenance_reason: None,
        fault: None,
        last_error: None,
        console_enabled: false,
        resource_class: None,
        inspection_started_at: None,
        inspection_finished_at: None,
        automated_clean: None,
        protected: false,
        protected_reason: None,
        owner: None,
        lessee: None,
        description: None,
        retired: false,
        retired_reason: None,
        network_data: Map::new(),
        boot_mode: None,
        secure_boot: None,
        shard: None,
        parent_node: None,
        disable_power_off: false,
        chassis_uuid: None,
        traits: Vec::new(),
        interfaces: BTreeMap::new(),
        created_at: Timestamp::now(),
        updated_at: None,
    }
}
