//! `/v1/volume/connectors` and those of one node.

use axum::Json;
use axum::extract::Path;
use axum::extract::State;
use axum::http::Uri;
use axum::routing::get;
use serde_json::Value;
use serde_json::json;
use wrought_store::VolumeConnector;
use wrought_store::volume::ConnectorQuery;

use super::FILTERS;
use super::filtered;
use crate::ApiState;
use crate::context::Context;
use crate::error::Result;
use crate::fields::Field;
use crate::nodes;
use crate::resource;
use crate::resource::Listing;
use crate::resource::Resource;
use crate::resource::nested;
use crate::routes::Routes;
use crate::value::Noun;
use crate::version::since::VOLUME;

impl Resource for VolumeConnector {
    const NOUN: Noun = Noun("connector");
    const TITLE: &'static str = "Volume connector";
    const PATH: &'static str = "volume/connectors";
    const PLURAL: &'static str = "connectors";
    const SINCE: u16 = VOLUME;
    const FIELDS: &'static [Field] = &[
        ("uuid", VOLUME),
        ("created_at", VOLUME),
        ("updated_at", VOLUME),
        ("connector_id", VOLUME),
        ("extra", VOLUME),
        ("type", VOLUME),
        ("node_uuid", VOLUME),
    ];
    const BRIEF: &'static [&'static str] = &["uuid", "node_uuid", "type", "connector_id"];
    const CHANGEABLE: &'static [&'static str] = &["connector_id", "extra", "node_uuid", "type"];
    const REQUIRED: &'static [&'static str] = &["node_uuid", "type", "connector_id"];
    const DETAIL: u16 = VOLUME;

    fn get(&self, field: &str) -> Value {
        match field {
            "connector_id" => json!(self.connector_id),
            "extra" => json!(self.extra),
            "node_uuid" => json!(self.node_uuid),
            "type" => json!(self.kind),
            _ => Value::Null,
        }
    }

    fn set(&mut self, field: &str, value: Value, _: &Context) -> Result<()> {
        match field {
            "connector_id" => self.connector_id = Self::NOUN.needed(field, value, 255)?,
            "extra" => self.extra = Self::NOUN.object(field, value)?,
            "node_uuid" => self.node_uuid = resource::node(Self::NOUN, &value)?,
            "type" => self.kind = Self::NOUN.needed(field, value, 32)?,
            _ => return Err(Self::NOUN.bad(field, "cannot be changed")),
        }
        Ok(())
    }
}

/// Routes of this file.
pub(super) fn router() -> Routes {
    resource::routes::<VolumeConnector>()
        .route("/v1/volume/connectors", get(list))
        .route(
            "/v1/nodes/{ident}/volume/connectors",
            get(of_node).fallback(nested),
        )
}

async fn list(State(state): State<ApiState>, context: Context, uri: Uri) -> Result<Json<Value>> {
    let listing = Listing::read::<VolumeConnector>(&uri, &context, FILTERS, "volume/connectors")?;
    let node_uuid = filtered(&state, &context, &listing.query).await?;
    listing
        .run(&state, &context, ConnectorQuery { node_uuid })
        .await
}

async fn of_node(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    context.endpoint(VOLUME)?;
    let node = nodes::find(&state, &context, &ident).await?.uuid;
    let path = format!("nodes/{node}/volume/connectors");
    let listing = Listing::read::<VolumeConnector>(&uri, &context, &[], path)?;
    let node_uuid = Some(node);
    listing
        .run(&state, &context, ConnectorQuery { node_uuid })
        .await
}
