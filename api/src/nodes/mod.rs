//! `/v1/nodes` and everything below one node.

mod bios;
mod boot_mode;
mod change;
mod console;
mod create;
mod delete;
mod fields;
mod firmware;
mod history;
mod indicators;
mod inventory;
mod list;
mod maintenance;
mod management;
mod names;
mod provision;
mod queue;
mod raid;
mod render;
mod show;
mod states;
mod steps;
mod traits;
mod update;
mod validate;
mod vendor;
mod vifs;
mod vmedia;

use axum::routing::delete;
use axum::routing::get;
use axum::routing::put;
use uuid::Uuid;
use wrought_store::Node;
use wrought_wire::state::ProvisionState;

use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::routes::Routes;
use crate::version::since;

pub(crate) use list::of_chassis;
pub(crate) use names::is_valid as is_valid_name;

pub(crate) use fields::CHANGEABLE;
pub(crate) use fields::FIELDS;
pub(crate) use fields::SUBRESOURCES;
pub(crate) use list::FILTERS;

/// Routes of this folder.
pub(crate) fn router() -> Routes {
    Routes::new()
        .route("/v1/nodes", get(list::list).post(create::create))
        .route("/v1/nodes/detail", get(list::detail))
        .route("/v1/nodes/validate", get(validate::by_query))
        .route(
            "/v1/nodes/{ident}",
            get(show::show).patch(update::update).delete(delete::delete),
        )
        .route("/v1/nodes/{ident}/children", get(list::children))
        .route("/v1/nodes/{ident}/validate", get(validate::by_path))
        .route("/v1/nodes/{ident}/states", get(states::show))
        .route("/v1/nodes/{ident}/states/power", put(states::power))
        .route(
            "/v1/nodes/{ident}/states/provision",
            put(provision::provision),
        )
        .route("/v1/nodes/{ident}/states/raid", put(raid::set))
        .route("/v1/nodes/{ident}/states/boot_mode", put(boot_mode::set))
        .route(
            "/v1/nodes/{ident}/states/secure_boot",
            put(boot_mode::set_secure),
        )
        .route(
            "/v1/nodes/{ident}/states/console",
            get(console::show).put(console::set),
        )
        .route(
            "/v1/nodes/{ident}/maintenance",
            put(maintenance::set).delete(maintenance::unset),
        )
        .route(
            "/v1/nodes/{ident}/management/boot_device",
            get(management::boot_device).put(management::set_boot_device),
        )
        .route(
            "/v1/nodes/{ident}/management/boot_device/supported",
            get(management::supported),
        )
        .route(
            "/v1/nodes/{ident}/management/inject_nmi",
            put(management::inject_nmi),
        )
        .route(
            "/v1/nodes/{ident}/management/indicators",
            get(indicators::list),
        )
        .route(
            "/v1/nodes/{ident}/management/indicators/{indicator}",
            get(indicators::show).put(indicators::set),
        )
        .route("/v1/nodes/{ident}/bios", get(bios::list))
        .route("/v1/nodes/{ident}/bios/{setting}", get(bios::show))
        .route("/v1/nodes/{ident}/firmware", get(firmware::list))
        .route("/v1/nodes/{ident}/vifs", get(vifs::list).post(vifs::attach))
        .route("/v1/nodes/{ident}/vifs/{vif}", delete(vifs::detach))
        .route(
            "/v1/nodes/{ident}/vmedia",
            get(vmedia::list)
                .post(vmedia::attach)
                .delete(vmedia::detach),
        )
        .route(
            "/v1/nodes/{ident}/vendor_passthru",
            get(vendor::by_query)
                .post(vendor::by_query)
                .put(vendor::by_query)
                .patch(vendor::by_query)
                .delete(vendor::by_query),
        )
        .route(
            "/v1/nodes/{ident}/vendor_passthru/methods",
            get(vendor::methods),
        )
        .route(
            "/v1/nodes/{ident}/vendor_passthru/{method}",
            get(vendor::by_path)
                .post(vendor::by_path)
                .put(vendor::by_path)
                .patch(vendor::by_path)
                .delete(vendor::by_path),
        )
        .route(
            "/v1/nodes/{ident}/traits",
            get(traits::list).put(traits::replace).delete(traits::clear),
        )
        .route(
            "/v1/nodes/{ident}/traits/{trait}",
            put(traits::add).delete(traits::remove),
        )
        .route("/v1/nodes/{ident}/inventory", get(inventory::show))
        .route("/v1/nodes/{ident}/history", get(history::list))
        .route("/v1/nodes/{ident}/history/{entry}", get(history::show))
}

/// The node with that UUID or, from 1.5 on, that name.
pub(crate) async fn find(state: &ApiState, context: &Context, ident: &str) -> Result<Node> {
    let missing = || ApiError::no_node(ident);
    if let Ok(uuid) = ident.parse::<Uuid>() {
        return state.store.node_by_uuid(uuid).await?.ok_or_else(missing);
    }
    if !context.has(since::NAMES) {
        return Err(missing());
    }
    if let Some(node) = state.store.node(ident).await? {
        return Ok(node);
    }
    match ident.strip_suffix(".json") {
        Some(ident) if !context.has(since::NO_SUFFIX) => {
            state.store.node(ident).await?.ok_or_else(missing)
        }
        _ => Err(missing()),
    }
}

/// 409 while a node is inspected: what belongs to it is about to be found out.
/// Versions before `inspect wait` do not know the difference.
pub(crate) async fn not_inspecting(
    state: &ApiState,
    context: &Context,
    node: Uuid,
    what: &str,
) -> Result<()> {
    if !context.has(since::INSPECT_WAIT) {
        return Ok(());
    }
    match state.store.node_by_uuid(node).await? {
        Some(node) if node.provision_state == ProvisionState::Inspecting => {
            Err(ApiError::conflict(format!(
                "Cannot update a {what} of node {} while it is in state \"inspecting\".",
                node.uuid
            )))
        }
        _ => Ok(()),
    }
}
