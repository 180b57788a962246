//! `GET /v1/ports`, `/v1/ports/detail` and the same below a node or a portgroup.

use axum::Json;
use axum::extract::Path;
use axum::extract::State;
use axum::http::Uri;
use serde_json::Value;
use wrought_store::Port;
use wrought_store::PortQuery;
use wrought_store::Portgroup;

use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::nodes;
use crate::query::Known;
use crate::query::Query;
use crate::resource;
use crate::resource::Listing;
use crate::version::since;

pub(crate) const FILTERS: &[Known] = &[
    ("node", 1),
    ("node_uuid", 1),
    ("address", 1),
    ("portgroup", since::NESTED_PORTGROUPS),
    ("shard", since::SHARDS),
    ("description_contains", 1),
    ("conductor_groups", 1),
];

/// `GET /v1/ports`.
pub(super) async fn list(
    State(state): State<ApiState>,
    context: Context,
    uri: Uri,
) -> Result<Json<Value>> {
    all(&state, &context, &uri, "ports").await
}

/// `GET /v1/ports/detail`.
pub(super) async fn detail(
    State(state): State<ApiState>,
    context: Context,
    uri: Uri,
) -> Result<Json<Value>> {
    all(&state, &context, &uri, "ports/detail").await
}

async fn all(state: &ApiState, context: &Context, uri: &Uri, path: &str) -> Result<Json<Value>> {
    let listing = Listing::read::<Port>(uri, context, FILTERS, path)?;
    let filter = filter(state, context, &listing.query).await?;
    listing.run(state, context, filter).await
}

/// `GET /v1/nodes/{ident}/ports`.
pub(super) async fn of_node(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    below_node(&state, &context, &uri, &ident, "ports").await
}

/// `GET /v1/nodes/{ident}/ports/detail`.
pub(super) async fn of_node_detail(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    below_node(&state, &context, &uri, &ident, "ports/detail").await
}

async fn below_node(
    state: &ApiState,
    context: &Context,
    uri: &Uri,
    ident: &str,
    end: &str,
) -> Result<Json<Value>> {
    let node = nodes::find(state, context, ident).await?.uuid;
    let filter = PortQuery {
        node_uuid: Some(node),
        ..PortQuery::default()
    };
    let listing = Listing::read::<Port>(uri, context, &[], format!("nodes/{node}/{end}"))?;
    listing.run(state, context, filter).await
}

/// `GET /v1/portgroups/{ident}/ports`.
pub(super) async fn of_portgroup(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    below_portgroup(&state, &context, &uri, &ident, "ports").await
}

/// `GET /v1/portgroups/{ident}/ports/detail`.
pub(super) async fn of_portgroup_detail(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    below_portgroup(&state, &context, &uri, &ident, "ports/detail").await
}

async fn below_portgroup(
    state: &ApiState,
    context: &Context,
    uri: &Uri,
    ident: &str,
    end: &str,
) -> Result<Json<Value>> {
    context.endpoint(since::NESTED_PORTGROUPS)?;
    let group: Portgroup = resource::find(state, context, ident).await?;
    let filter = PortQuery {
        portgroup_uuid: Some(group.uuid),
        ..PortQuery::default()
    };
    let path = format!("portgroups/{}/{end}", group.uuid);
    let listing = Listing::read::<Port>(uri, context, &[], path)?;
    listing.run(state, context, filter).await
}

async fn filter(state: &ApiState, context: &Context, query: &Query) -> Result<PortQuery> {
    let by_node = query.text("node").or(query.text("node_uuid"));
    let (portgroup, shard) = (query.text("portgroup"), query.text("shard"));
    let exclusive = [by_node, portgroup, shard].into_iter().flatten().count();
    if exclusive > 1 {
        return Err(ApiError::forbidden(
            "Only one of node, portgroup and shard can be used to filter ports",
        ));
    }
    let conductor_groups = query.list("conductor_groups").unwrap_or_default();
    if !conductor_groups.is_empty()
        && (by_node.is_some() || portgroup.is_some() || query.text("address").is_some())
    {
        return Err(ApiError::bad_request(
            "conductor_groups cannot be combined with node, portgroup or address",
        ));
    }
    let address = match query.text("address") {
        None => None,
        Some(text) => Some(resource::mac_address(text)?),
    };
    let node_uuid = match by_node {
        Some(ident) => Some(nodes::find(state, context, ident).await?.uuid),
        None => None,
    };
    let portgroup_uuid = match portgroup {
        Some(ident) => {
            let group: Portgroup = resource::find(state, context, ident).await?;
            Some(group.uuid)
        }
        None => None,
    };
    Ok(PortQuery {
        node_uuid,
        portgroup_uuid,
        address,
        shard: query.names("shard"),
        conductor_groups,
        description_contains: query.text("description_contains").map(str::to_owned),
    })
}
