//! The router: every resource's routes behind the front.

use axum::Router;
use axum::http::Uri;
use axum::middleware::from_fn_with_state;

use crate::ApiState;
use crate::allocations;
use crate::chassis;
use crate::conductors;
use crate::continue_inspection;
use crate::deploy_templates;
use crate::drivers;
use crate::error::ApiError;
use crate::events;
use crate::front;
use crate::health;
use crate::heartbeat;
use crate::inspection_rules;
use crate::lookup;
use crate::metrics;
use crate::nodes;
use crate::openapi;
use crate::portgroups;
use crate::ports;
use crate::root;
use crate::routes::Routes;
use crate::runbooks;
use crate::shards;
use crate::volume;

/// Which part of the API a listener serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
    /// All of it.
    #[default]
    All,
    /// Nothing for ramdisks: they get 403.
    WithoutRamdisk,
    /// What ramdisks need and nothing else.
    RamdiskOnly,
}

/// Every route.
pub(crate) fn routes() -> Routes {
    Routes::new()
        .merge(root::router())
        .merge(health::router())
        .merge(metrics::router())
        .merge(nodes::router())
        .merge(ports::router())
        .merge(chassis::router())
        .merge(deploy_templates::router())
        .merge(drivers::router())
        .merge(conductors::router())
        .merge(allocations::router())
        .merge(inspection_rules::router())
        .merge(lookup::router())
        .merge(continue_inspection::router())
        .merge(heartbeat::router())
        .merge(events::router())
        .merge(portgroups::router())
        .merge(runbooks::router())
        .merge(shards::router())
        .merge(volume::router())
        .merge(openapi::router())
}

/// The whole API.
pub fn router(state: ApiState) -> Router {
    router_of(state, Part::All)
}

/// A part of the API.
pub fn router_of(state: ApiState, part: Part) -> Router {
    let resources = routes()
        .into_router()
        .fallback(nothing)
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .with_state(state.clone());
    // The front rewrites paths, so it must come before anything is routed.
    Router::new()
        .fallback_service(resources)
        .layer(from_fn_with_state((state, part), front::front))
}

/// The answer where no resource is.
async fn nothing(uri: Uri) -> ApiError {
    let path: String = uri.path().chars().take(200).collect();
    ApiError::not_found(format!("Not Found: this API serves nothing at {path}."))
}
