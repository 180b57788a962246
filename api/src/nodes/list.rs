//! `GET /v1/nodes`, `/v1/nodes/detail` and the children of one node.

use axum::Json;
use axum::extract::Path;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde::Serialize;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_store::Chassis;
use wrought_store::Node;
use wrought_store::NodeQuery;
use wrought_wire::state::ProvisionState;

use super::fields;
use super::queue;
use super::render;
use super::render::Renderer;
use crate::ApiState;
use crate::answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::links;
use crate::paging;
use crate::paging::Paging;
use crate::query::Known;
use crate::query::Query;
use crate::version::since;

/// Filters with the version that first has each.
pub(crate) const FILTERS: &[Known] = &[
    ("chassis_uuid", 1),
    ("instance_uuid", 1),
    ("associated", 1),
    ("maintenance", 1),
    ("provision_state", 9),
    ("driver", 16),
    ("resource_class", 21),
    ("fault", 42),
    ("conductor_group", 46),
    ("conductor", since::CONDUCTORS),
    ("owner", 50),
    ("description_contains", 1),
    ("retired", 1),
    ("lessee", 65),
    ("project", 1),
    ("shard", since::SHARDS),
    ("sharded", since::SHARDS),
    ("include_children", since::CHILDREN),
    ("parent_node", since::CHILDREN),
    ("instance_name", 104),
];

/// Bytes of a node in a brief list, links' beginnings apart.
const BRIEF: usize = 320;

/// Faults that a node can have.
const FAULTS: [&str; 4] = [
    "power failure",
    "clean failure",
    "rescue abort failure",
    "service failure",
];

/// Which list of nodes is wanted.
struct Place<'a> {
    /// Where it is below `/v1`.
    path: &'a str,
    /// Only of this chassis.
    chassis: Option<Uuid>,
}

/// `GET /v1/nodes`.
pub(crate) async fn list(
    State(state): State<ApiState>,
    context: Context,
    uri: Uri,
) -> Result<Response> {
    let place = Place {
        path: "nodes",
        chassis: None,
    };
    chosen(&state, &context, &uri, &place).await
}

/// `GET /v1/chassis/{uuid}/nodes` and the same with `/detail`.
pub(crate) async fn of_chassis(
    state: &ApiState,
    context: &Context,
    uri: &Uri,
    chassis: Uuid,
    detail: bool,
) -> Result<Response> {
    let end = if detail { "nodes/detail" } else { "nodes" };
    let place = Place {
        path: &format!("chassis/{chassis}/{end}"),
        chassis: Some(chassis),
    };
    if !detail {
        return chosen(state, context, uri, &place).await;
    }
    let query = read(uri, context, &[])?;
    full(state, context, &query, &place, None).await
}

/// A list with a choice of fields.
async fn chosen(
    state: &ApiState,
    context: &Context,
    uri: &Uri,
    place: &Place<'_>,
) -> Result<Response> {
    let mut choice = vec![("fields", since::FIELDS)];
    // Before there was one, it is an argument like any unknown one.
    if context.has(since::DETAIL) {
        choice.push(("detail", since::DETAIL));
    }
    let query = read(uri, context, &choice)?;
    let detail = query.bool("detail")?.unwrap_or(false);
    let requested = fields::requested(&query, context)?;
    match (detail, requested) {
        (true, Some(_)) => Err(ApiError::detail_and_fields()),
        (true, None) => full(state, context, &query, place, None).await,
        (false, Some(fields)) => full(state, context, &query, place, Some(fields)).await,
        (false, None) => brief(state, context, &query, place).await,
    }
}

/// `GET /v1/nodes/detail`.
pub(crate) async fn detail(
    State(state): State<ApiState>,
    context: Context,
    uri: Uri,
) -> Result<Response> {
    let query = read(&uri, &context, &[])?;
    let place = Place {
        path: "nodes/detail",
        chassis: None,
    };
    full(&state, &context, &query, &place, None).await
}

/// `GET /v1/nodes/{ident}/children`.
pub(crate) async fn children(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
) -> Result<Json<Value>> {
    context.endpoint(since::CHILDREN)?;
    let node = super::find(&state, &context, &ident).await?;
    let parent = node.uuid.to_string();
    let query = NodeQuery {
        parent_node: Some(parent.clone()),
        ..NodeQuery::default()
    };
    let children = state.store.list_nodes_brief(&query).await?;
    let uuids: Vec<_> = children.iter().map(|child| child.uuid).collect();
    let href = links::location(&context, &format!("nodes?parent_node={parent}"));
    Ok(Json(
        json!({"children": uuids, "links": {"href": href, "rel": "children"}}),
    ))
}

/// A chassis that is asked for must be there.
async fn check_chassis(state: &ApiState, query: &Query) -> Result<()> {
    let Some(uuid) = query.uuid("chassis_uuid")? else {
        return Ok(());
    };
    match state.store.row::<Chassis>(uuid).await? {
        Some(_) => Ok(()),
        None => Err(ApiError::not_found(format!(
            "Chassis {uuid} could not be found."
        ))),
    }
}

fn read(uri: &Uri, context: &Context, more: &[Known]) -> Result<Query> {
    let known: Vec<Known> = FILTERS
        .iter()
        .chain(&paging::ARGUMENTS)
        .chain(more)
        .copied()
        .collect();
    Query::read(uri, context, &known)
}

async fn full(
    state: &ApiState,
    context: &Context,
    query: &Query,
    place: &Place<'_>,
    fields: Option<Vec<&'static str>>,
) -> Result<Response> {
    let paging = Paging::read(query)?;
    check_chassis(state, query).await?;
    let mut nodes = state
        .store
        .list_nodes(&node_query(query, context, &paging, place)?)
        .await?;
    queue::places(state, &mut nodes).await?;
    // Which conductor has a node is not in the database, so that filter comes
    // after the page is cut and may leave it short.
    let wanted = query.text("conductor");
    let placing = wanted.map(|_| Renderer::new(state, context, Some(vec!["conductor"])));
    let here = |node: &Node| {
        placing
            .as_ref()
            .is_none_or(|placing| placing.conductor(node).as_deref() == wanted)
    };
    let renderer = Renderer::new(state, context, fields);
    let shown = nodes
        .iter()
        .filter(|node| here(node))
        .map(|node| renderer.node(node));
    let shown: Vec<render::Shown<'_>> = shown.collect();
    let last = nodes.last().map(|node| node.uuid.to_string());
    let next = paging.next(context, place.path, query, nodes.len(), last.as_deref());
    answer::json(&Page { nodes: shown, next })
}

async fn brief(
    state: &ApiState,
    context: &Context,
    query: &Query,
    place: &Place<'_>,
) -> Result<Response> {
    if query.text("conductor").is_some() {
        let fields = fields::BRIEF
            .iter()
            .copied()
            .filter(|name| fields::find(name).is_some_and(|(_, since)| context.has(since)));
        return full(state, context, query, place, Some(fields.collect())).await;
    }
    let mut paging = Paging::read(query)?;
    paging.brief = fields::BRIEF;
    check_chassis(state, query).await?;
    let nodes = state
        .store
        .list_nodes_brief(&node_query(query, context, &paging, place)?)
        .await?;
    let last = nodes.last().map(|node| node.uuid.to_string());
    let next = paging.next(context, place.path, query, nodes.len(), last.as_deref());
    let mut body = Vec::with_capacity(64 + nodes.len() * (BRIEF + 2 * context.base.len()));
    body.extend_from_slice(b"{\"nodes\":[");
    for (number, node) in nodes.iter().enumerate() {
        if number > 0 {
            body.push(b',');
        }
        render::write_brief(&mut body, context, node);
    }
    body.push(b']');
    if let Some(next) = next {
        body.extend_from_slice(b",\"next\":");
        serde_json::to_writer(&mut body, &next).map_err(|error| ApiError::internal(&error))?;
    }
    body.push(b'}');
    Ok(answer::of_text(body))
}

#[derive(Serialize)]
struct Page<T> {
    nodes: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

fn node_query(
    query: &Query,
    context: &Context,
    paging: &Paging,
    place: &Place<'_>,
) -> Result<NodeQuery> {
    if let Some(key) = &paging.sort_key {
        fields::check_version(context, key)?;
    }
    let text = |name: &str| query.text(name).map(str::to_owned);
    let provision_state = match query.text("provision_state") {
        None => Vec::new(),
        Some(text) => vec![text.parse::<ProvisionState>().map_err(|_| {
            ApiError::bad_request(format!("Provision state {text:?} is not valid"))
        })?],
    };
    if let Some(fault) = query.text("fault").filter(|fault| !FAULTS.contains(fault)) {
        return Err(ApiError::bad_request(format!(
            "Unrecognized fault {fault:?} is specified, allowed faults are {FAULTS:?}"
        )));
    }
    Ok(NodeQuery {
        associated: query.bool("associated")?,
        maintenance: query.bool("maintenance")?,
        retired: query.bool("retired")?,
        provision_state,
        driver: text("driver"),
        resource_class: text("resource_class"),
        fault: text("fault"),
        conductor_group: query.text("conductor_group").map(str::to_lowercase),
        owner: text("owner"),
        lessee: text("lessee"),
        project: text("project"),
        description_contains: text("description_contains"),
        shard: query.names("shard"),
        sharded: query.bool("sharded")?,
        parent_node: text("parent_node"),
        include_children: query.bool("include_children")?.unwrap_or(false),
        instance_uuid: query.uuid("instance_uuid")?,
        instance_name: text("instance_name"),
        chassis_uuid: place.chassis.or(query.uuid("chassis_uuid")?),
        sort_key: paging.sort_key.clone(),
        sort_dir: paging.sort_dir,
        marker: paging.marker,
        limit: Some(paging.limit),
        ..NodeQuery::default()
    })
}
