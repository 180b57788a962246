//! `/v1/volume/targets` and those of one node.

use axum::Json;
use axum::extract::Path;
use axum::extract::State;
use axum::http::Uri;
use axum::routing::get;
use serde_json::Value;
use serde_json::json;
use wrought_store::VolumeTarget;
use wrought_store::volume::TargetQuery;

use super::FILTERS;
use super::filtered;
use crate::ApiState;
use crate::context::Context;
use crate::error::Result;
use crate::fields::Field;
use crate::mask;
use crate::nodes;
use crate::resource;
use crate::resource::Listing;
use crate::resource::Resource;
use crate::resource::nested;
use crate::routes::Routes;
use crate::value::Noun;
use crate::version::since::VOLUME;

impl Resource for VolumeTarget {
    const NOUN: Noun = Noun("target");
    const TITLE: &'static str = "Volume target";
    const PATH: &'static str = "volume/targets";
    const PLURAL: &'static str = "targets";
    const SINCE: u16 = VOLUME;
    const FIELDS: &'static [Field] = &[
        ("uuid", VOLUME),
        ("created_at", VOLUME),
        ("updated_at", VOLUME),
        ("boot_index", VOLUME),
        ("extra", VOLUME),
        ("properties", VOLUME),
        ("volume_id", VOLUME),
        ("volume_type", VOLUME),
        ("node_uuid", VOLUME),
    ];
    const BRIEF: &'static [&'static str] = &[
        "uuid",
        "node_uuid",
        "volume_type",
        "boot_index",
        "volume_id",
    ];
    const CHANGEABLE: &'static [&'static str] = &[
        "boot_index",
        "extra",
        "node_uuid",
        "properties",
        "volume_id",
        "volume_type",
    ];
    const REQUIRED: &'static [&'static str] =
        &["node_uuid", "volume_type", "boot_index", "volume_id"];
    const DETAIL: u16 = VOLUME;

    fn get(&self, field: &str) -> Value {
        match field {
            "boot_index" => json!(self.boot_index),
            "extra" => json!(self.extra),
            "node_uuid" => json!(self.node_uuid),
            "properties" => json!(self.properties),
            "volume_id" => json!(self.volume_id),
            "volume_type" => json!(self.volume_type),
            _ => Value::Null,
        }
    }

    fn set(&mut self, field: &str, value: Value, _: &Context) -> Result<()> {
        match field {
            "boot_index" => self.boot_index = Self::NOUN.number(field, &value)?,
            "extra" => self.extra = Self::NOUN.object(field, value)?,
            "node_uuid" => self.node_uuid = resource::node(Self::NOUN, &value)?,
            "properties" => {
                let mut properties = Self::NOUN.object(field, value)?;
                mask::unmask(&mut properties, &self.properties);
                self.properties = properties;
            }
            "volume_id" => self.volume_id = Self::NOUN.needed(field, value, 255)?,
            "volume_type" => self.volume_type = Self::NOUN.needed(field, value, 64)?,
            _ => return Err(Self::NOUN.bad(field, "cannot be changed")),
        }
        Ok(())
    }

    /// How a volume is reached holds the secrets for it.
    fn show(&self, field: &str) -> Value {
        match field {
            "properties" => mask::masked(&self.properties),
            _ => self.get(field),
        }
    }
}

/// Routes of this file.
pub(super) fn router() -> Routes {
    resource::routes::<VolumeTarget>()
        .route("/v1/volume/targets", get(list))
        .route(
            "/v1/nodes/{ident}/volume/targets",
            get(of_node).fallback(nested),
        )
}

async fn list(State(state): State<ApiState>, context: Context, uri: Uri) -> Result<Json<Value>> {
    let listing = Listing::read::<VolumeTarget>(&uri, &context, FILTERS, "volume/targets")?;
    let node_uuid = filtered(&state, &context, &listing.query).await?;
    listing
        .run(&state, &context, TargetQuery { node_uuid })
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
    let path = format!("nodes/{node}/volume/targets");
    let listing = Listing::read::<VolumeTarget>(&uri, &context, &[], path)?;
    let node_uuid = Some(node);
    listing
        .run(&state, &context, TargetQuery { node_uuid })
        .await
}
