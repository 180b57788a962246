//! `/v1/drivers`.

use axum::Json;
use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
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
use crate::vendor;
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
        .route(
            "/v1/drivers/{name}/raid/logical_disk_properties",
            get(raid_properties),
        )
        .route(
            "/v1/drivers/{name}/vendor_passthru",
            get(vendor_by_query)
                .post(vendor_by_query)
                .put(vendor_by_query)
                .patch(vendor_by_query)
                .delete(vendor_by_query),
        )
        .route(
            "/v1/drivers/{name}/vendor_passthru/methods",
            get(vendor_methods),
        )
        .route(
            "/v1/drivers/{name}/vendor_passthru/{method}",
            get(vendor_by_path)
                .post(vendor_by_path)
                .put(vendor_by_path)
                .patch(vendor_by_path)
                .delete(vendor_by_path),
        )
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
        return Err(ApiError::detail_and_fields());
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
    context: Context,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    Query::read(&uri, &context, &[])?;
    let mut drivers = state.conductor.drivers().into_iter();
    let driver = drivers.find(|driver| driver.name == name);
    let driver =
        driver.ok_or_else(|| ApiError::not_found(format!("The driver '{name}' is unknown.")))?;
    Ok(Json(json!(driver.properties)))
}

async fn raid_properties(
    State(state): State<ApiState>,
    context: Context,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    context.needs("RAID configuration", since::RAID)?;
    Query::read(&uri, &context, &[])?;
    let properties = state.conductor.raid_properties(&name).await;
    let properties = properties.map_err(ApiError::missing_driver_part)?;
    Ok(Json(json!(properties)))
}

async fn vendor_methods(
    State(state): State<ApiState>,
    context: Context,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Json<Value>> {
    Query::read(&uri, &context, &[])?;
    let methods = state.conductor.driver_vendor_methods(&name).await?;
    Ok(Json(json!(methods)))
}

async fn vendor_by_query(
    State(state): State<ApiState>,
    context: Context,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response> {
    vendor_call(&state, &context, &name, None, request).await
}

async fn vendor_by_path(
    State(state): State<ApiState>,
    context: Context,
    Path((name, method)): Path<(String, String)>,
    request: Request,
) -> Result<Response> {
    vendor_call(&state, &context, &name, Some(method), request).await
}

async fn vendor_call(
    state: &ApiState,
    context: &Context,
    name: &str,
    method: Option<String>,
    request: Request,
) -> Result<Response> {
    let call = vendor::read(context, method, request).await?;
    let given = state.conductor.driver_vendor_call(name, call).await?;
    Ok(vendor::answer(given))
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
        if field == "links" {
            continue;
        }
        let value = whole
            .remove(field)
            .ok_or_else(|| ApiError::bad_request(format!("Field {field} is not a valid field.")))?;
        body.insert(field.clone(), value);
    }
    if let Some(links) = whole.remove("links") {
        body.insert("links".to_owned(), links);
    }
    Ok(Value::Object(body))
}
