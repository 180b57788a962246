//! `/v1/drivers`.

use axum::Json;
use axum::extract::Path;
use axum::extract::State;
use axum::http::Uri;
use axum::routing::get;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_rpc::Driver;

use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::links;
use crate::query::Query;
use crate::routes::Routes;
use crate::version::since;

/// Interface kinds with the version that first shows each; the others came
/// with dynamic drivers.
const LATER_KINDS: [(&str, u16); 4] = [
    ("storage", 33),
    ("rescue", 38),
    ("bios", 40),
    ("firmware", 86),
];

/// Routes of this file.
pub(crate) fn router() -> Routes {
    Routes::new()
        .route("/v1/drivers", get(list))
        .route("/v1/drivers/{name}", get(show))
        .route("/v1/drivers/{name}/properties", get(properties))
}

async fn list(State(state): State<ApiState>, context: Context, uri: Uri) -> Result<Json<Value>> {
    let known = [
        ("type", since::DYNAMIC_DRIVERS),
        ("detail", since::DYNAMIC_DRIVERS),
        ("fields", since::DRIVER_FIELDS),
    ];
    let query = Query::read(&uri, &context, &known)?;
    let detail = query.bool("detail")?.unwrap_or(false);
    let fields = query.list("fields");
    if detail && fields.is_some() {
        return Err(ApiError::bad_request(
            "Can not specify ?detail=True and fields in the same request.",
        ));
    }
    let drivers = match query.text("type") {
        None | Some("dynamic") => state.conductor.drivers(),
        Some("classic") => Vec::new(),
        Some(other) => {
            return Err(ApiError::bad_request(format!(
                "Driver type must be either classic or dynamic, found {other:?}"
            )));
        }
    };
    let mut shown: Vec<Value> = Vec::new();
    for driver in &drivers {
        let whole = render(driver, detail || fields.is_some(), &context);
        shown.push(match &fields {
            Some(fields) => select(whole, fields)?,
            None => whole,
        });
    }
    Ok(Json(json!({"drivers": shown})))
}

async fn show(
    State(state): State<ApiState>,
    context: Context,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    let query = Query::read(&uri, &context, &[("fields", since::DRIVER_FIELDS)])?;
    let whole = render(&find(&state, &name)?, true, &context);
    Ok(Json(match query.list("fields") {
        Some(fields) => select(whole, &fields)?,
        None => whole,
    }))
}

async fn properties(
    State(state): State<ApiState>,
    Path(name): Path<String>,
) -> Result<Json<Value>> {
    Ok(Json(json!(find(&state, &name)?.properties)))
}

fn find(state: &ApiState, name: &str) -> Result<Driver> {
    state
        .conductor
        .drivers()
        .into_iter()
        .find(|driver| driver.name == name)
        .ok_or_else(|| {
            ApiError::not_found(format!(
                "Could not find the following driver(s) or hardware type(s): {name}."
            ))
        })
}

fn render(driver: &Driver, detail: bool, context: &Context) -> Value {
    let name = &driver.name;
    let mut body = Map::new();
    body.insert("name".to_owned(), json!(name));
    body.insert("hosts".to_owned(), json!(driver.hosts));
    body.insert(
        "links".to_owned(),
        links::links(context, &format!("drivers/{name}")),
    );
    if context.has(since::STATES_LINK) {
        let resource = format!("drivers/{name}/properties");
        body.insert("properties".to_owned(), links::links(context, &resource));
    }
    if context.has(since::DYNAMIC_DRIVERS) {
        body.insert("type".to_owned(), json!("dynamic"));
        if detail {
            interfaces(driver, context, &mut body);
        }
    }
    Value::Object(body)
}

fn interfaces(driver: &Driver, context: &Context, body: &mut Map<String, Value>) {
    let shown = |kind: &str| {
        LATER_KINDS
            .iter()
            .find(|(later, _)| *later == kind)
            .is_none_or(|(_, since)| context.has(*since))
    };
    for (kind, default) in driver.defaults.iter().filter(|(kind, _)| shown(kind)) {
        body.insert(format!("default_{kind}_interface"), json!(default));
    }
    for (kind, enabled) in driver.enabled.iter().filter(|(kind, _)| shown(kind)) {
        body.insert(format!("enabled_{kind}_interfaces"), json!(enabled));
    }
}

/// The fields asked for, and the links.
fn select(whole: Value, fields: &[String]) -> Result<Value> {
    let Value::Object(mut whole) = whole else {
        return Ok(whole);
    };
    let mut body = Map::new();
    for field in fields {
        let value = whole.remove(field).filter(|_| field != "links");
        let value = value
            .ok_or_else(|| ApiError::bad_request(format!("Field {field} is not a valid field.")))?;
        body.insert(field.clone(), value);
    }
    if let Some(links) = whole.remove("links") {
        body.insert("links".to_owned(), links);
    }
    Ok(Value::Object(body))
}
