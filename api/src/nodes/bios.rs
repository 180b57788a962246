//! `/v1/nodes/{ident}/bios`.

use axum::Json;
use axum::extract::Path;
use axum::extract::State;
use axum::http::Uri;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_store::BiosSetting;
use wrought_store::Known;

use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::fields;
use crate::fields::Field;
use crate::links;
use crate::query::Query;
use crate::time;
use crate::version::since;

/// Fields of a setting with the version that first has each.
const FIELDS: &[Field] = &[
    ("created_at", since::BIOS),
    ("updated_at", since::BIOS),
    ("name", since::BIOS),
    ("value", since::BIOS),
    ("allowable_values", since::BIOS_REGISTRY),
    ("attribute_type", since::BIOS_REGISTRY),
    ("lower_bound", since::BIOS_REGISTRY),
    ("max_length", since::BIOS_REGISTRY),
    ("min_length", since::BIOS_REGISTRY),
    ("read_only", since::BIOS_REGISTRY),
    ("reset_required", since::BIOS_REGISTRY),
    ("unique", since::BIOS_REGISTRY),
    ("upper_bound", since::BIOS_REGISTRY),
];

/// Lists the settings by name.
pub(crate) async fn list(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    context.endpoint(since::BIOS)?;
    // Before the registry these arguments were not known at all.
    let known: &[_] = match context.has(since::BIOS_REGISTRY) {
        true => &[
            ("detail", since::BIOS_REGISTRY),
            ("fields", since::BIOS_REGISTRY),
        ],
        false => &[],
    };
    let query = Query::read(&uri, &context, known)?;
    let detail = query.bool("detail")?.unwrap_or(false);
    let check = |name: &str| fields::check_version(FIELDS, &context, name);
    let fields = match (fields::requested(FIELDS, &query, check)?, detail) {
        (Some(_), true) => return Err(ApiError::detail_and_fields()),
        (Some(fields), false) => fields,
        (None, true) => shown(&context),
        (None, false) => vec!["created_at", "updated_at", "name", "value"],
    };
    let node = super::find(&state, &context, &ident).await?;
    let settings = state.store.parts::<BiosSetting>(node.uuid).await?;
    let settings: Vec<Value> = settings
        .iter()
        .map(|setting| render(node.uuid, setting, &fields, &context))
        .collect();
    Ok(Json(json!({"bios": settings})))
}

/// Shows one setting.
pub(crate) async fn show(
    State(state): State<ApiState>,
    context: Context,
    Path((ident, name)): Path<(String, String)>,
    uri: Uri,
) -> Result<Json<Value>> {
    context.endpoint(since::BIOS)?;
    Query::read(&uri, &context, &[])?;
    let node = super::find(&state, &context, &ident).await?;
    let found = state.store.part::<BiosSetting>(node.uuid, &name).await?;
    let found = found.ok_or_else(|| {
        ApiError::not_found(format!(
            "Node {} doesn't have a BIOS setting '{name}'",
            node.uuid
        ))
    })?;
    let setting = render(node.uuid, &found, &shown(&context), &context);
    let name = found.part.name;
    Ok(Json(json!({name: setting})))
}

fn shown(context: &Context) -> Vec<&'static str> {
    let fields = FIELDS.iter().filter(|(_, since)| context.has(*since));
    fields.map(|(name, _)| *name).collect()
}

fn render(node: Uuid, setting: &Known<BiosSetting>, fields: &[&str], context: &Context) -> Value {
    let part = &setting.part;
    let value = |field: &str| match field {
        "created_at" => json!(time::text(setting.created_at)),
        "updated_at" => time::value(setting.updated_at),
        "name" => json!(part.name),
        "value" => json!(part.value),
        "allowable_values" => json!(part.allowable_values),
        "attribute_type" => json!(part.attribute_type),
        "lower_bound" => json!(part.lower_bound),
        "max_length" => json!(part.max_length),
        "min_length" => json!(part.min_length),
        "read_only" => json!(part.read_only),
        "reset_required" => json!(part.reset_required),
        "unique" => json!(part.unique),
        "upper_bound" => json!(part.upper_bound),
        _ => Value::Null,
    };
    let fields = fields.iter();
    let mut body: Map<String, Value> = fields
        .map(|field| ((*field).to_owned(), value(field)))
        .collect();
    let resource = format!("nodes/{node}/bios/{}", crate::query::encode(&part.name));
    body.insert("links".to_owned(), links::links(context, &resource));
    Value::Object(body)
}
