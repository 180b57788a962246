//! `/v1/chassis` and the nodes of one chassis.

use axum::Json;
use axum::extract::Path;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use axum::routing::get;
use serde_json::Value;
use serde_json::json;
use wrought_store::Chassis;
use wrought_store::chassis::ChassisQuery;

use crate::ApiState;
use crate::context::Context;
use crate::error::Result;
use crate::fields::Field;
use crate::links;
use crate::nodes;
use crate::resource;
use crate::resource::Listing;
use crate::resource::Resource;
use crate::routes::Routes;
use crate::value::Noun;

impl Resource for Chassis {
    const NOUN: Noun = Noun("chassis");
    const TITLE: &'static str = "Chassis";
    const PATH: &'static str = "chassis";
    const PLURAL: &'static str = "chassis";
    const SINCE: u16 = 1;
    const FIELDS: &'static [Field] = &[
        ("uuid", 1),
        ("created_at", 1),
        ("updated_at", 1),
        ("description", 1),
        ("extra", 1),
    ];
    const BRIEF: &'static [&'static str] = &["uuid", "description"];
    const CHANGEABLE: &'static [&'static str] = &["description", "extra"];
    const REQUIRED: &'static [&'static str] = &[];

    fn get(&self, field: &str) -> Value {
        match field {
            "description" => json!(self.description),
            "extra" => json!(self.extra),
            _ => Value::Null,
        }
    }

    fn set(&mut self, field: &str, value: Value, _: &Context) -> Result<()> {
        match field {
            "description" => self.description = Self::NOUN.text(field, value, 255)?,
            "extra" => self.extra = Self::NOUN.object(field, value)?,
            _ => return Err(Self::NOUN.bad(field, "cannot be changed")),
        }
        Ok(())
    }

    fn below(&self, context: &Context) -> Vec<(&'static str, Value)> {
        // One list too many: that is how clients know it.
        let nodes = links::links(context, &format!("chassis/{}/nodes", self.uuid));
        vec![("nodes", json!([nodes]))]
    }
}

/// Routes of this file.
pub(crate) fn router() -> Routes {
    resource::routes::<Chassis>()
        .route("/v1/chassis", get(list))
        .route("/v1/chassis/detail", get(detail))
        .route("/v1/chassis/{ident}/nodes", get(nodes_list))
        .route("/v1/chassis/{ident}/nodes/detail", get(nodes_detail))
}

async fn list(State(state): State<ApiState>, context: Context, uri: Uri) -> Result<Json<Value>> {
    let listing = Listing::read::<Chassis>(&uri, &context, &[], "chassis")?;
    listing.run(&state, &context, ChassisQuery).await
}

async fn detail(State(state): State<ApiState>, context: Context, uri: Uri) -> Result<Json<Value>> {
    let listing = Listing::read::<Chassis>(&uri, &context, &[], "chassis/detail")?;
    listing.run(&state, &context, ChassisQuery).await
}

async fn nodes_list(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Response> {
    let chassis: Chassis = resource::find(&state, &context, &ident).await?;
    nodes::of_chassis(&state, &context, &uri, chassis.uuid, false).await
}

async fn nodes_detail(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Response> {
    let chassis: Chassis = resource::find(&state, &context, &ident).await?;
    nodes::of_chassis(&state, &context, &uri, chassis.uuid, true).await
}
