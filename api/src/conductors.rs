//! `/v1/conductors`.

use axum::Json;
use axum::extract::Path;
use axum::extract::State;
use axum::http::Uri;
use axum::routing::get;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_store::Conductor;
use wrought_store::SortDir;

use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::links;
use crate::paging;
use crate::paging::Paging;
use crate::query::Query;
use crate::routes::Routes;
use crate::time;
use crate::version::since;

const FIELDS: [&str; 6] = [
    "created_at",
    "updated_at",
    "hostname",
    "conductor_group",
    "drivers",
    "alive",
];
const BRIEF: &[&str] = &["hostname", "conductor_group", "alive"];

/// Routes of this file.
pub(crate) fn router() -> Routes {
    Routes::new()
        .route("/v1/conductors", get(list))
        .route("/v1/conductors/{hostname}", get(show))
}

async fn list(State(state): State<ApiState>, context: Context, uri: Uri) -> Result<Json<Value>> {
    context.endpoint(since::CONDUCTORS)?;
    let mut known = paging::ARGUMENTS.to_vec();
    known.extend([("detail", since::CONDUCTORS), ("fields", since::CONDUCTORS)]);
    let query = Query::read(&uri, &context, &known)?;
    let mut paging = Paging::named(&query)?;
    let fields = match (query.bool("detail")?.unwrap_or(false), requested(&query)?) {
        (true, Some(_)) => return Err(ApiError::detail_and_fields()),
        (true, None) => FIELDS.to_vec(),
        (false, Some(fields)) => fields,
        (false, None) => {
            paging.brief = BRIEF;
            BRIEF.to_vec()
        }
    };
    let mut conductors = state.store.conductors().await?;
    sort(&mut conductors, &paging)?;
    if let Some(marker) = query.text("marker") {
        let place = conductors
            .iter()
            .position(|conductor| conductor.hostname == marker);
        let place = place.ok_or_else(|| missing(marker))?;
        conductors.drain(..=place);
    }
    conductors.truncate(usize::try_from(paging.limit).unwrap_or(usize::MAX));
    let shown: Vec<Value> = conductors
        .iter()
        .map(|conductor| render(&state, conductor, &fields, &context))
        .collect();
    let mut body = json!({"conductors": shown});
    let last = conductors.last().map(|last| last.hostname.as_str());
    if let Some(next) = paging.next(&context, "conductors", &query, conductors.len(), last) {
        body["next"] = json!(next);
    }
    Ok(Json(body))
}

/// Brings them into the wanted order; the store gives them as they came.
fn sort(conductors: &mut [Conductor], paging: &Paging) -> Result<()> {
    match paging.sort_key.as_deref() {
        None => {}
        Some("hostname") => conductors.sort_by(|a, b| a.hostname.cmp(&b.hostname)),
        Some("conductor_group") => {
            conductors.sort_by(|a, b| a.conductor_group.cmp(&b.conductor_group));
        }
        Some("created_at") => conductors.sort_by_key(|conductor| conductor.created_at),
        Some("updated_at") => conductors.sort_by_key(|conductor| conductor.updated_at),
        Some(other) => {
            return Err(ApiError::bad_request(format!(
                "The sort_key value {other} is an invalid field for sorting"
            )));
        }
    }
    if paging.sort_dir == SortDir::Desc {
        conductors.reverse();
    }
    Ok(())
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
    Ok(Json(render(&state, found, &fields, &context)))
}

fn missing(hostname: &str) -> ApiError {
    ApiError::not_found(format!("Conductor {hostname} could not be found."))
}

fn requested(query: &Query) -> Result<Option<Vec<&'static str>>> {
    let Some(names) = query.list("fields") else {
        return Ok(None);
    };
    // Links are shown in any case.
    let names = names.iter().filter(|name| *name != "links");
    let find = |name: &String| {
        FIELDS
            .iter()
            .copied()
            .find(|field| field == name)
            .ok_or_else(|| ApiError::bad_request(format!("Field {name} is not a valid field.")))
    };
    names.map(find).collect::<Result<Vec<_>>>().map(Some)
}

fn render(state: &ApiState, conductor: &Conductor, fields: &[&str], context: &Context) -> Value {
    let mut body = Map::new();
    for field in fields {
        let value = match *field {
            "created_at" => json!(time::text(conductor.created_at)),
            "updated_at" => json!(time::text(conductor.updated_at)),
            "hostname" => json!(conductor.hostname),
            "conductor_group" => json!(conductor.conductor_group),
            "drivers" => json!(conductor.drivers),
            _ => json!(conductor.is_alive(state.dead_after)),
        };
        body.insert((*field).to_owned(), value);
    }
    let resource = format!("conductors/{}", conductor.hostname);
    body.insert("links".to_owned(), links::links(context, &resource));
    Value::Object(body)
}
