//! `/v1/conductors`.

use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use axum::extract::State;
use axum::http::Uri;
use axum::routing::get;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_store::Conductor;

use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::links;
use crate::query::Query;
use crate::routes::Routes;
use crate::time;
use crate::version::since;

/// Silence after which a conductor counts as dead.
const DEAD_AFTER: Duration = Duration::from_secs(60);
const FIELDS: [&str; 6] = [
    "created_at",
    "updated_at",
    "hostname",
    "conductor_group",
    "drivers",
    "alive",
];
const BRIEF: [&str; 3] = ["hostname", "conductor_group", "alive"];

/// Routes of this file.
pub(crate) fn router() -> Routes {
    Routes::new()
        .route("/v1/conductors", get(list))
        .route("/v1/conductors/{hostname}", get(show))
}

async fn list(State(state): State<ApiState>, context: Context, uri: Uri) -> Result<Json<Value>> {
    context.endpoint(since::CONDUCTORS)?;
    let known = [
        ("detail", since::CONDUCTORS),
        ("fields", since::CONDUCTORS),
        ("limit", since::CONDUCTORS),
        ("marker", since::CONDUCTORS),
        ("sort_key", since::CONDUCTORS),
        ("sort_dir", since::CONDUCTORS),
    ];
    let query = Query::read(&uri, &context, &known)?;
    let fields = match (query.bool("detail")?.unwrap_or(false), requested(&query)?) {
        (true, Some(_)) => {
            return Err(ApiError::bad_request(
                "Can not specify ?detail=True and fields in the same request.",
            ));
        }
        (true, None) => FIELDS.to_vec(),
        (false, Some(fields)) => fields,
        (false, None) => BRIEF.to_vec(),
    };
    // There are few of them: the whole list is one page.
    let mut conductors = state.store.conductors().await?;
    if let Some(marker) = query.text("marker") {
        let place = conductors
            .iter()
            .position(|conductor| conductor.hostname == marker);
        let place = place.ok_or_else(|| missing(marker))?;
        conductors.drain(..=place);
    }
    if let Some(limit) = query.text("limit") {
        let limit: usize = limit
            .parse()
            .ok()
            .filter(|limit| *limit > 0)
            .ok_or_else(|| ApiError::bad_request(format!("Limit must be positive: {limit}")))?;
        conductors.truncate(limit);
    }
    let shown: Vec<Value> = conductors
        .iter()
        .map(|conductor| render(conductor, &fields, &context))
        .collect();
    Ok(Json(json!({"conductors": shown})))
}

async fn show(
    State(state): State<ApiState>,
    context: Context,
    Path(hostname): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    context.endpoint(since::CONDUCTORS)?;
    let query = Query::read(&uri, &context, &[("fields", since::CONDUCTORS)])?;
    let fields = requested(&query)?.unwrap_or_else(|| FIELDS.to_vec());
    let conductors = state.store.conductors().await?;
    let found = conductors
        .iter()
        .find(|conductor| conductor.hostname == hostname);
    let found = found.ok_or_else(|| missing(&hostname))?;
    Ok(Json(render(found, &fields, &context)))
}

fn missing(hostname: &str) -> ApiError {
    ApiError::not_found(format!("Conductor {hostname} could not be found."))
}

fn requested(query: &Query) -> Result<Option<Vec<&'static str>>> {
    let Some(names) = query.list("fields") else {
        return Ok(None);
    };
    let find = |name: &String| {
        FIELDS
            .iter()
            .copied()
            .find(|field| field == name)
            .ok_or_else(|| ApiError::bad_request(format!("Field {name} is not a valid field.")))
    };
    names.iter().map(find).collect::<Result<Vec<_>>>().map(Some)
}

fn render(conductor: &Conductor, fields: &[&str], context: &Context) -> Value {
    let mut body = Map::new();
    for field in fields {
        let value = match *field {
            "created_at" => json!(time::text(conductor.created_at)),
            "updated_at" => json!(time::text(conductor.updated_at)),
            "hostname" => json!(conductor.hostname),
            "conductor_group" => json!(conductor.conductor_group),
            "drivers" => json!(conductor.drivers),
            _ => json!(conductor.is_alive(DEAD_AFTER)),
        };
        body.insert((*field).to_owned(), value);
    }
    let resource = format!("conductors/{}", conductor.hostname);
    body.insert("links".to_owned(), links::links(context, &resource));
    Value::Object(body)
}
