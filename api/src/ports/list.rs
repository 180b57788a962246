//! `GET /v1/ports`, `/v1/ports/detail` and the same below one node.

use axum::Json;
use axum::extract::Path;
use axum::extract::State;
use axum::http::Uri;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_store::PortQuery;

use super::fields;
use super::mac;
use super::render;
use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::nodes;
use crate::paging;
use crate::paging::Paging;
use crate::query::Known;
use crate::query::Query;
use crate::version::since;

const FILTERS: &[Known] = &[
    ("node", 1),
    ("node_uuid", 1),
    ("address", 1),
    ("portgroup", 24),
    ("shard", since::SHARDS),
    ("description_contains", 97),
    ("conductor_groups", since::PORT_GROUPS_FILTER),
];

/// `GET /v1/ports`.
pub(crate) async fn list(
    State(state): State<ApiState>,
    context: Context,
    uri: Uri,
) -> Result<Json<Value>> {
    run(&state, &context, &uri, None, false, "ports").await
}

/// `GET /v1/ports/detail`.
pub(crate) async fn detail(
    State(state): State<ApiState>,
    context: Context,
    uri: Uri,
) -> Result<Json<Value>> {
    run(&state, &context, &uri, None, true, "ports/detail").await
}

/// `GET /v1/nodes/{ident}/ports`.
pub(crate) async fn of_node(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    let node = nodes::find(&state, &context, &ident).await?.uuid;
    run(
        &state,
        &context,
        &uri,
        Some(node),
        false,
        &format!("nodes/{node}/ports"),
    )
    .await
}

/// `GET /v1/nodes/{ident}/ports/detail`.
pub(crate) async fn of_node_detail(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    let node = nodes::find(&state, &context, &ident).await?.uuid;
    run(
        &state,
        &context,
        &uri,
        Some(node),
        true,
        &format!("nodes/{node}/ports/detail"),
    )
    .await
}

async fn run(
    state: &ApiState,
    context: &Context,
    uri: &Uri,
    node: Option<Uuid>,
    detail: bool,
    resource: &str,
) -> Result<Json<Value>> {
    let mut known: Vec<Known> = paging::ARGUMENTS.to_vec();
    if node.is_none() {
        known.extend_from_slice(FILTERS);
    }
    if !detail {
        known.extend([("fields", since::FIELDS), ("detail", since::DETAIL)]);
    }
    let query = Query::read(uri, context, &known)?;
    let paging = Paging::read(&query)?;
    let requested = fields::requested(&query, context)?;
    let detail = detail || query.bool("detail")?.unwrap_or(false);
    if detail && requested.is_some() {
        return Err(ApiError::bad_request(
            "Can not specify ?detail=True and fields in the same request.",
        ));
    }
    let fields = match detail {
        true => None,
        false => Some(requested.unwrap_or_else(|| fields::BRIEF.to_vec())),
    };
    let wanted = port_query(state, context, &query, &paging, node).await?;
    let ports = match &wanted {
        Some(wanted) => state.store.rows(wanted, &paging.page()).await?,
        None => Vec::new(),
    };
    let shown: Vec<Value> = ports
        .iter()
        .map(|port| render::port(port, fields.as_deref(), context))
        .collect();
    let mut body = json!({"ports": shown});
    let last = ports.last().map(|port| port.uuid.to_string());
    if let Some(next) = paging.next(context, resource, &query, ports.len(), last.as_deref()) {
        body["next"] = json!(next);
    }
    Ok(Json(body))
}

/// None when nothing can match.
async fn port_query(
    state: &ApiState,
    context: &Context,
    query: &Query,
    paging: &Paging,
    node: Option<Uuid>,
) -> Result<Option<PortQuery>> {
    if let Some(key) = &paging.sort_key {
        fields::check_version(context, key)?;
    }
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
    if portgroup.is_some() {
        return Ok(None);
    }
    let address = match query.text("address") {
        None => None,
        Some(text) => Some(mac(text).ok_or_else(|| {
            ApiError::bad_request(format!("Expected valid MAC address for address: {text}"))
        })?),
    };
    let node_uuid = match (node, by_node) {
        (Some(node), _) => Some(node),
        (None, Some(ident)) => Some(nodes::find(state, context, ident).await?.uuid),
        (None, None) => None,
    };
    let shards = shard.into_iter().flat_map(|text| text.split(','));
    Ok(Some(PortQuery {
        node_uuid,
        address,
        shard: shards
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect(),
        conductor_groups,
        description_contains: query.text("description_contains").map(str::to_owned),
        portgroup_uuid: None,
    }))
}
