//! `/v1/ports` and the ports of one node or portgroup.

mod create;
mod fields;
mod link;
mod list;

use axum::routing::any;
use axum::routing::get;
use wrought_store::Port;

use crate::resource;
use crate::resource::nested;
use crate::routes::Routes;

pub(crate) use list::FILTERS;

/// Routes of this folder.
pub(crate) fn router() -> Routes {
    resource::routes_of_one::<Port>()
        .route("/v1/ports", get(list::list).post(create::create))
        .route("/v1/ports/detail", get(list::detail))
        .route(
            "/v1/nodes/{ident}/ports",
            get(list::of_node).fallback(nested),
        )
        .route("/v1/nodes/{ident}/ports/detail", get(list::of_node_detail))
        .refused("/v1/nodes/{ident}/ports/{port}", any(nested))
        .route(
            "/v1/portgroups/{ident}/ports",
            get(list::of_portgroup).fallback(nested),
        )
        .route(
            "/v1/portgroups/{ident}/ports/detail",
            get(list::of_portgroup_detail),
        )
        .refused("/v1/portgroups/{ident}/ports/{port}", any(nested))
}
