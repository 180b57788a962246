//! The HTTP API: parse, authorise, read the store or call the conductor, render
//! for the microversion. Nothing else happens here.
//!
//! A request passes [`front`] (identity of the request, version, authentication),
//! then the handler of one resource. Each resource has its own folder or file
//! with its own field table; [`resource`] serves all whose records are rows of
//! one table. What they share is below: [`version`], [`query`], [`paging`],
//! [`body`], [`value`], [`patch`], [`mask`], [`error`].

mod again;
mod allocations;
mod answer;
mod auth;
mod body;
mod chassis;
mod conductors;
mod context;
mod continue_inspection;
mod deploy_templates;
mod drivers;
mod error;
mod events;
mod fields;
mod front;
mod health;
mod heartbeat;
mod inspection_rules;
mod links;
mod lookup;
mod mask;
mod metrics;
mod nodes;
mod openapi;
mod paging;
mod patch;
mod portgroups;
mod ports;
mod proxies;
mod query;
mod resource;
mod root;
mod router;
mod routes;
mod runbooks;
mod serve;
mod shards;
mod steps;
mod time;
mod traits;
mod value;
mod vendor;
mod version;
mod volume;

use std::sync::Arc;
use std::time::Duration;

pub use auth::Auth;
pub use auth::AuthError;
pub use metrics::metrics_of;
pub use proxies::BadNetwork;
pub use proxies::Network;
pub use proxies::Proxies;
pub use router::Part;
pub use router::router;
pub use router::router_of;
pub use serve::Limits;
pub use serve::serve;
pub use serve::serve_with;
use wrought_rpc::Conductor;
use wrought_store::Store;

/// What the API works with.
#[derive(Clone)]
pub struct ApiState {
    /// The database, read only from here.
    pub store: Store,
    /// Whoever makes changes.
    pub conductor: Arc<dyn Conductor>,
    /// Who may do what.
    pub auth: Auth,
    /// What links begin with, such as `https://192.0.2.1:6385`; none: what the
    /// request was sent to.
    pub public_endpoint: Option<String>,
    /// Proxies whose word is taken for how clients reached them.
    pub proxies: Proxies,
    /// Silence after which a conductor counts as dead.
    pub dead_after: Duration,
}

impl std::fmt::Debug for ApiState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiState")
            .field("public_endpoint", &self.public_endpoint)
            .finish_non_exhaustive()
    }
}
