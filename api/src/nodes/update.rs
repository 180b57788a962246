//! `PATCH /v1/nodes/{ident}`.

use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::response::Response;
use serde_json::Map;
use serde_json::Value;
use wrought_store::Allocation;
use wrought_store::Chassis;
use wrought_store::Node;
use wrought_wire::state::ProvisionState;

use super::change;
use super::fields;
use super::render::Renderer;
use crate::ApiState;
use crate::again::Attempts;
use crate::answer;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::patch::Patch;
use crate::query::Query;
use crate::version::since;

/// Changes a node.
pub(crate) async fn update(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<Response> {
    let known = [("reset_interfaces", since::RESET_INTERFACES)];
    let reset = Query::read(request.uri(), &context, &known)?.bool("reset_interfaces")?;
    let reset = reset.unwrap_or(false);
    let (parts, body) = request.into_parts();
    let patch = body::json(&parts.headers, body, body::ORDINARY).await?;
    let patch = Patch::read(&patch, &context)?;
    check_fields(&patch, &context)?;
    if reset && !patch.roots().contains("driver") {
        return Err(ApiError::bad_request(
            "The reset_interfaces parameter can only be used when changing the node's driver.",
        ));
    }
    let mut attempts = Attempts::default();
    let node = loop {
        let mut node = super::find(&state, &context, &ident).await?;
        check_state(&node, &patch, &context)?;
        let changed = apply(&mut node, &patch, &context)?;
        settle(&state, &context, &mut node).await?;
        if changed.iter().any(|field| field == "owner") {
            owner_may_change(&state, &node).await?;
        }
        if changed.is_empty() && !reset {
            break node;
        }
        match state.conductor.update_node(node, changed, reset).await {
            Err(error) if attempts.again(&error) => {}
            outcome => break outcome?,
        }
    };
    let renderer = Renderer::new(&state, &context, None);
    answer::json(&renderer.node(&node))
}

/// Only fields that may be changed, and none that is too new.
fn check_fields(patch: &Patch, context: &Context) -> Result<()> {
    for root in patch.roots() {
        if root == "traits" {
            return Err(ApiError::bad_request(
                "Cannot patch /traits. Traits are changed below /v1/nodes/{node}/traits.",
            ));
        }
        if !fields::CHANGEABLE.contains(&root) {
            return Err(ApiError::bad_request(format!(
                "Cannot patch /{root}. Only the following can be updated: {}",
                fields::CHANGEABLE.join(", ")
            )));
        }
        fields::check_version(context, root)?;
    }
    Ok(())
}

/// What the node's state allows, as far as it can be told without its lock.
fn check_state(node: &Node, patch: &Patch, context: &Context) -> Result<()> {
    if node.maintenance || patch.only_removes("instance_uuid") {
        return Ok(());
    }
    let inspecting = node.provision_state == ProvisionState::Inspecting;
    let moving = node.target_provision_state.is_some() && !node.provision_state.allows_update();
    if moving || (inspecting && context.has(since::INSPECT_WAIT)) {
        return Err(ApiError::conflict(format!(
            "Node {} can not be updated while a state transition is in progress.",
            node.uuid
        )));
    }
    if patch.roots().contains("driver") && node.console_enabled {
        return Err(ApiError::conflict(format!(
            "Node {} can not change its driver while its console is enabled.",
            node.uuid
        )));
    }
    Ok(())
}

/// A node stays with the owner whose allocation has it.
async fn owner_may_change(state: &ApiState, node: &Node) -> Result<()> {
    let Some(uuid) = node.allocation_uuid else {
        return Ok(());
    };
    let allocation: Option<Allocation> = state.store.row(uuid).await?;
    match allocation.and_then(|allocation| allocation.owner) {
        Some(owner) => Err(ApiError::conflict(format!(
            "Node {} cannot change its owner while allocation {uuid} of the owner {owner} has it.",
            node.uuid
        ))),
        None => Ok(()),
    }
}

/// Applies the patch; gives the fields that are different now.
fn apply(node: &mut Node, patch: &Patch, context: &Context) -> Result<Vec<String>> {
    let mut document: Map<String, Value> = fields::CHANGEABLE
        .iter()
        .map(|field| ((*field).to_owned(), change::get(node, field)))
        .collect();
    patch.apply(&mut document)?;
    let mut changed = Vec::new();
    for root in patch.roots() {
        let before = change::get(node, root);
        let value = document.remove(root).unwrap_or_default();
        change::set(node, root, value, context)?;
        if change::get(node, root) != before {
            changed.push(root.to_owned());
        }
    }
    let display_name = node
        .instance_info
        .get("display_name")
        .and_then(Value::as_str);
    if let (None, Some(name), true) = (
        &node.instance_name,
        display_name,
        changed.iter().any(|field| field == "instance_info"),
    ) {
        node.instance_name = Some(name.chars().take(255).collect());
        changed.push("instance_name".to_owned());
    }
    Ok(changed)
}

/// Follows references from a node to other things: the chassis must be there;
/// the parent is stored by UUID and must be another node.
pub(crate) async fn settle(state: &ApiState, context: &Context, node: &mut Node) -> Result<()> {
    if let Some(chassis) = node.chassis_uuid
        && state.store.row::<Chassis>(chassis).await?.is_none()
    {
        return Err(ApiError::bad_request(format!(
            "Chassis {chassis} could not be found."
        )));
    }
    let Some(parent) = &node.parent_node else {
        return Ok(());
    };
    let parent = super::find(state, context, parent)
        .await
        .map_err(ApiError::into_bad_request)?;
    if parent.uuid == node.uuid {
        return Err(ApiError::conflict(format!(
            "Node {} cannot be its own parent.",
            node.uuid
        )));
    }
    if parent.parent_node.is_some() {
        return Err(ApiError::conflict(format!(
            "Node {} has a parent itself, so that it cannot be a parent.",
            parent.uuid
        )));
    }
    node.parent_node = Some(parent.uuid.to_string());
    Ok(())
}
