//! `/v1/portgroups` and the portgroups of one node.

use axum::Json;
use axum::extract::Path;
use axum::extract::State;
use axum::http::Uri;
use axum::routing::any;
use axum::routing::get;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_store::Portgroup;
use wrought_store::PortgroupQuery;
use wrought_store::portgroup::DEFAULT_MODE;

use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::fields::Field;
use crate::links;
use crate::mask;
use crate::nodes;
use crate::query::Known;
use crate::resource;
use crate::resource::Listing;
use crate::resource::Resource;
use crate::resource::nested;
use crate::routes::Routes;
use crate::value::Noun;
use crate::version::since::NESTED_PORTGROUPS;
use crate::version::since::PORTGROUPS;

pub(crate) const FILTERS: &[Known] = &[
    ("node", PORTGROUPS),
    ("address", PORTGROUPS),
    ("shard", 106),
    ("conductor_groups", PORTGROUPS),
];

impl Resource for Portgroup {
    const NOUN: Noun = Noun("portgroup");
    const TITLE: &'static str = "Portgroup";
    const PATH: &'static str = "portgroups";
    const PLURAL: &'static str = "portgroups";
    const SINCE: u16 = PORTGROUPS;
    const FIELDS: &'static [Field] = &[
        ("uuid", PORTGROUPS),
        ("created_at", PORTGROUPS),
        ("updated_at", PORTGROUPS),
        ("address", PORTGROUPS),
        ("extra", PORTGROUPS),
        ("internal_info", PORTGROUPS),
        ("mode", 26),
        ("name", PORTGROUPS),
        ("properties", 26),
        ("standalone_ports_supported", PORTGROUPS),
        ("node_uuid", PORTGROUPS),
        ("physical_network", 102),
        ("category", 103),
        ("dynamic_portgroup", 111),
    ];
    const BRIEF: &'static [&'static str] = &["uuid", "address", "name"];
    const CHANGEABLE: &'static [&'static str] = &[
        "address",
        "category",
        "extra",
        "mode",
        "name",
        "node_uuid",
        "physical_network",
        "properties",
        "standalone_ports_supported",
    ];
    const NAMES: Option<u16> = Some(PORTGROUPS);
    const REQUIRED: &'static [&'static str] = &["node_uuid"];
    const KEPT: &'static [&'static str] = &["node_uuid", "mode"];

    fn get(&self, field: &str) -> Value {
        match field {
            "address" => json!(self.address),
            "category" => json!(self.category),
            "dynamic_portgroup" => json!(self.dynamic_portgroup),
            "extra" => json!(self.extra),
            "internal_info" => json!(self.internal_info),
            "mode" => json!(self.mode),
            "name" => json!(self.name),
            "node_uuid" => json!(self.node_uuid),
            "physical_network" => json!(self.physical_network),
            "properties" => json!(self.properties),
            "standalone_ports_supported" => json!(self.standalone_ports_supported),
            _ => Value::Null,
        }
    }

    fn set(&mut self, field: &str, value: Value, context: &Context) -> Result<()> {
        match field {
            "address" => self.address = address(value)?,
            "category" => self.category = Self::NOUN.text(field, value, 80)?,
            "extra" => self.extra = Self::NOUN.object(field, value)?,
            "mode" => {
                let mode = Self::NOUN.text(field, value, 255)?;
                self.mode = mode.unwrap_or_else(|| DEFAULT_MODE.to_owned());
            }
            "name" => self.name = name(value, context)?,
            "node_uuid" => self.node_uuid = resource::node(Self::NOUN, &value)?,
            "physical_network" => {
                self.physical_network = resource::physical_network(Self::NOUN, value)?;
            }
            "properties" => self.properties = Self::NOUN.object(field, value)?,
            "standalone_ports_supported" => {
                let flag = Self::NOUN.boolean(field, &value)?;
                self.standalone_ports_supported = flag.unwrap_or(true);
            }
            _ => return Err(Self::NOUN.bad(field, "cannot be changed")),
        }
        Ok(())
    }

    fn show(&self, field: &str) -> Value {
        match field {
            "internal_info" => mask::masked(&self.internal_info),
            _ => self.get(field),
        }
    }

    fn inspected_with(&self) -> Option<Uuid> {
        Some(self.node_uuid)
    }

    fn below(&self, context: &Context) -> Vec<(&'static str, Value)> {
        let ports = links::links(context, &format!("portgroups/{}/ports", self.uuid));
        vec![("ports", ports)]
    }
}

fn address(value: Value) -> Result<Option<String>> {
    let Some(text) = Portgroup::NOUN.text("address", value, 64)? else {
        return Ok(None);
    };
    resource::mac_address(&text).map(Some)
}

fn name(value: Value, context: &Context) -> Result<Option<String>> {
    let name = Portgroup::NOUN.text("name", value, 255)?;
    match name.filter(|name| !name.is_empty()) {
        Some(name) if !nodes::is_valid_name(&name, context) => Err(ApiError::bad_request(format!(
            "Cannot create or update a portgroup with invalid name '{name}'"
        ))),
        name => Ok(name),
    }
}

/// Routes of this file.
pub(crate) fn router() -> Routes {
    resource::routes::<Portgroup>()
        .route("/v1/portgroups", get(list))
        .route("/v1/portgroups/detail", get(detail))
        .route(
            "/v1/nodes/{ident}/portgroups",
            get(of_node).fallback(nested),
        )
        .route("/v1/nodes/{ident}/portgroups/detail", get(of_node_detail))
        .refused("/v1/nodes/{ident}/portgroups/{portgroup}", any(nested))
}

async fn list(State(state): State<ApiState>, context: Context, uri: Uri) -> Result<Json<Value>> {
    all(&state, &context, &uri, "portgroups").await
}

async fn detail(State(state): State<ApiState>, context: Context, uri: Uri) -> Result<Json<Value>> {
    all(&state, &context, &uri, "portgroups/detail").await
}

async fn all(state: &ApiState, context: &Context, uri: &Uri, path: &str) -> Result<Json<Value>> {
    let listing = Listing::read::<Portgroup>(uri, context, FILTERS, path)?;
    let query = &listing.query;
    let node_uuid = match query.text("node") {
        Some(ident) => Some(nodes::find(state, context, ident).await?.uuid),
        None => None,
    };
    let address = match query.text("address") {
        Some(text) => address(json!(text))?,
        None => None,
    };
    let filter = PortgroupQuery {
        node_uuid,
        address,
        shard: query.names("shard"),
        conductor_groups: query.list("conductor_groups").unwrap_or_default(),
    };
    listing.run(state, context, filter).await
}

async fn of_node(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    below_node(&state, &context, &uri, &ident, "portgroups").await
}

async fn of_node_detail(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    below_node(&state, &context, &uri, &ident, "portgroups/detail").await
}

async fn below_node(
    state: &ApiState,
    context: &Context,
    uri: &Uri,
    ident: &str,
    end: &str,
) -> Result<Json<Value>> {
    context.endpoint(NESTED_PORTGROUPS)?;
    let node = nodes::find(state, context, ident).await?.uuid;
    let filter = PortgroupQuery {
        node_uuid: Some(node),
        ..PortgroupQuery::default()
    };
    let listing = Listing::read::<Portgroup>(uri, context, &[], format!("nodes/{node}/{end}"))?;
    listing.run(state, context, filter).await
}
