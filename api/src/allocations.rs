//! `/v1/allocations`: requests for any node that fits, and `allocation` below
//! one node.

use axum::Json;
use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::Uri;
use axum::response::Response;
use axum::routing::get;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_store::Allocation;
use wrought_store::AllocationQuery;
use wrought_store::Node;

use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::fields::Field;
use crate::nodes;
use crate::query::Known;
use crate::resource;
use crate::resource::Listing;
use crate::resource::Resource;
use crate::routes::Routes;
use crate::traits;
use crate::value::Noun;
use crate::version::since;

/// Filters with the version that first has each.
pub(crate) const FILTERS: &[Known] = &[
    ("node", since::ALLOCATIONS),
    ("resource_class", since::ALLOCATIONS),
    ("state", since::ALLOCATIONS),
    ("owner", since::ALLOCATION_OWNER),
];

/// Candidate nodes of one allocation, at most.
const MOST_CANDIDATES: usize = 1000;

impl Resource for Allocation {
    const NOUN: Noun = Noun("allocation");
    const TITLE: &'static str = "Allocation";
    const PATH: &'static str = "allocations";
    const PLURAL: &'static str = "allocations";
    const SINCE: u16 = since::ALLOCATIONS;
    const CHANGES: u16 = since::ALLOCATION_CHANGES;
    const REFUSES_METHOD: bool = true;
    const NAMES: Option<u16> = Some(since::ALLOCATIONS);
    const FIELDS: &'static [Field] = &[
        ("uuid", 1),
        ("created_at", 1),
        ("updated_at", 1),
        ("candidate_nodes", 1),
        ("extra", 1),
        ("last_error", 1),
        ("name", 1),
        ("owner", since::ALLOCATION_OWNER),
        ("resource_class", 1),
        ("state", 1),
        ("traits", 1),
        ("node_uuid", 1),
    ];
    const BRIEF: &'static [&'static str] = &[];
    const CHANGEABLE: &'static [&'static str] = &["extra", "name"];
    const GIVEN: &'static [&'static str] =
        &["candidate_nodes", "owner", "resource_class", "traits"];
    const REQUIRED: &'static [&'static str] = &[];

    fn get(&self, field: &str) -> Value {
        match field {
            "candidate_nodes" => json!(self.candidate_nodes),
            "extra" => json!(self.extra),
            "last_error" => json!(self.last_error),
            "name" => json!(self.name),
            "node_uuid" => json!(self.node_uuid),
            "owner" => json!(self.owner),
            "resource_class" => json!(self.resource_class),
            "state" => json!(self.state),
            "traits" => json!(self.traits),
            _ => Value::Null,
        }
    }

    fn set(&mut self, field: &str, value: Value, context: &Context) -> Result<()> {
        match field {
            "candidate_nodes" => {
                let uuid = |value: &Value| {
                    let uuid = Self::NOUN.uuid(field, value)?;
                    uuid.ok_or_else(|| Self::NOUN.bad(field, "must not hold null"))
                };
                let nodes = list(field, &value)?.iter().map(uuid);
                self.candidate_nodes = nodes.collect::<Result<_>>()?;
            }
            "extra" => self.extra = Self::NOUN.object(field, value)?,
            "name" => {
                self.name = Self::NOUN.text(field, value, 255)?;
                if let Some(name) = &self.name
                    && !nodes::is_valid_name(name, context)
                {
                    return Err(Self::NOUN.bad(field, &format!("{name:?} is no valid name")));
                }
            }
            "owner" => self.owner = Self::NOUN.text(field, value, 255)?,
            "resource_class" => self.resource_class = Self::NOUN.text(field, value, 80)?,
            "traits" => {
                let name = |value: &Value| match value {
                    Value::String(name) => traits::check(name).map(|()| name.clone()),
                    other => Err(Self::NOUN.mismatch(field, "a list of strings", other)),
                };
                let names = list(field, &value)?.iter().map(name);
                self.traits = traits::ordered(names.collect::<Result<_>>()?)?;
            }
            _ => return Err(Self::NOUN.bad(field, "cannot be changed")),
        }
        Ok(())
    }
}

fn list<'v>(field: &str, value: &'v Value) -> Result<&'v [Value]> {
    match value {
        Value::Null => Ok(&[]),
        Value::Array(items) => Ok(items),
        other => Err(Allocation::NOUN.mismatch(field, "a list", other)),
    }
}

/// Routes of this file.
pub(crate) fn router() -> Routes {
    Routes::new()
        .route("/v1/allocations", get(all).post(create))
        .merge(resource::routes_of_one::<Allocation>())
        .route(
            "/v1/nodes/{ident}/allocation",
            get(of_node).delete(free_node),
        )
}

async fn all(State(state): State<ApiState>, context: Context, uri: Uri) -> Result<Json<Value>> {
    let listing = Listing::read::<Allocation>(&uri, &context, FILTERS, "allocations")?;
    let text = |name: &str| listing.query.text(name).map(str::to_owned);
    let node = match listing.query.text("node") {
        Some(ident) => Some(named(&state, &context, ident).await?.uuid),
        None => None,
    };
    let filter = AllocationQuery {
        node_uuid: node,
        resource_class: text("resource_class"),
        state: text("state"),
        owner: text("owner"),
    };
    listing.run(&state, &context, filter).await
}

async fn create(
    State(state): State<ApiState>,
    context: Context,
    request: Request,
) -> Result<Response> {
    Allocation::gate(&context, true)?;
    let mut given = resource::read_new(request, &context).await?;
    let node = backfilled(&state, &context, given.remove("node")).await?;
    resolve(&state, &context, &mut given).await?;
    let has_uuid = given.get("uuid").is_some_and(|uuid| !uuid.is_null());
    let mut wanted: Allocation = resource::parse(given, &context)?;
    match node {
        // The instance that is there already is the one that it is for.
        Some(node) => {
            wanted.node_uuid = Some(node.uuid);
            wanted.uuid = match node.instance_uuid {
                Some(instance) if !has_uuid => instance,
                _ => wanted.uuid,
            };
        }
        None if wanted.resource_class.is_none() => {
            return Err(Allocation::NOUN.schema(
                "'resource_class' is a required property unless a node is given (backfill)",
            ));
        }
        None => {}
    }
    resource::store_new(&state, &context, wanted).await
}

/// The node that a new allocation is made for, when one is given.
async fn backfilled(
    state: &ApiState,
    context: &Context,
    given: Option<Value>,
) -> Result<Option<Node>> {
    let Some(given) = given else { return Ok(None) };
    context.needs("The field node", since::BACKFILL)?;
    match given {
        Value::Null => Ok(None),
        Value::String(ident) => named(state, context, &ident).await.map(Some),
        other => Err(Allocation::NOUN.mismatch("node", "a UUID or name", &other)),
    }
}

/// Puts UUIDs in place of the names of candidate nodes.
async fn resolve(
    state: &ApiState,
    context: &Context,
    given: &mut Map<String, Value>,
) -> Result<()> {
    let Some(Value::Array(candidates)) = given.get_mut("candidate_nodes") else {
        return Ok(());
    };
    if candidates.len() > MOST_CANDIDATES {
        let problem = format!("more than {MOST_CANDIDATES} candidates");
        return Err(Allocation::NOUN.bad("candidate_nodes", &problem));
    }
    for candidate in candidates {
        let Value::String(ident) = candidate else {
            return Err(Allocation::NOUN.mismatch(
                "candidate_nodes",
                "a list of strings",
                candidate,
            ));
        };
        *candidate = json!(named(state, context, ident).await?.uuid);
    }
    Ok(())
}

/// A node that a request names: 400 when it is not there.
async fn named(state: &ApiState, context: &Context, ident: &str) -> Result<Node> {
    let found = nodes::find(state, context, ident).await;
    found.map_err(ApiError::into_bad_request)
}

/// `GET /v1/nodes/{ident}/allocation`.
async fn of_node(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    let allocation = find_of(&state, &context, &ident).await?;
    resource::show::<Allocation>(State(state), context, Path(allocation), uri).await
}

/// `DELETE /v1/nodes/{ident}/allocation`.
async fn free_node(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<StatusCode> {
    let allocation = find_of(&state, &context, &ident).await?;
    resource::delete::<Allocation>(State(state), context, Path(allocation), uri).await
}

/// The UUID of the allocation that has a node.
async fn find_of(state: &ApiState, context: &Context, ident: &str) -> Result<String> {
    Allocation::gate(context, false)?;
    let node = nodes::find(state, context, ident).await?;
    let found = node.allocation_uuid.map(|uuid| uuid.to_string());
    found.ok_or_else(|| {
        ApiError::not_found(format!(
            "Allocation for node {} could not be found.",
            node.uuid
        ))
    })
}
