//! The OpenAPI document: generated from the field tables of the resources and
//! from the tables of operations here. Tests hold the operations against the
//! router, in both directions, and the document against its copy in `docs/`.

mod components;
mod kinds;
mod operation;
mod operations;
mod schema;

use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::get;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_wire::microversion::HEADER;

use crate::routes::Routes;

/// Where it is.
pub(crate) const PATH: &str = "/openapi.json";

/// The document as text; it is the same in every answer.
static TEXT: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", document()));

/// Routes of this folder.
pub(crate) fn router() -> Routes {
    Routes::new().route(PATH, get(show))
}

async fn show() -> Response {
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}

/// The document.
fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations::all() {
        let path = paths
            .entry(operation.path.clone().into_owned())
            .or_insert_with(|| json!({}));
        path[operation.method.to_lowercase()] = operation.json();
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Wrought: OpenStack Ironic's bare metal API",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE")},
            "description": "Fields, arguments and operations come with microversions: \
                x-min-version says with which one. What is shown is the newest version.",
        },
        "security": [{"basic": []}],
        "paths": paths,
        "components": {
            "schemas": components::schemas(),
            "parameters": {HEADER: operation::version_parameter()},
            "responses": components::responses(),
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    })
}

#[cfg(test)]
mod tests;
