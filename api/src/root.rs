//! `/` and `/v1`.

use axum::Json;
use axum::routing::get;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_wire::microversion::Microversion;

use crate::context::Context;
use crate::links;
use crate::routes::Routes;
use crate::version::since;

/// Collections in the order of the index, with the version that first lists
/// them.
const COLLECTIONS: [(&str, u16); 16] = [
    ("chassis", 1),
    ("nodes", 1),
    ("ports", 1),
    ("drivers", 1),
    ("portgroups", since::PORTGROUPS),
    ("volume", since::VOLUME),
    ("lookup", since::RAMDISK),
    ("heartbeat", since::RAMDISK),
    ("conductors", since::CONDUCTORS),
    ("allocations", since::ALLOCATIONS),
    ("events", since::EVENTS),
    ("deploy_templates", since::DEPLOY_TEMPLATES),
    ("shards", since::SHARDS),
    ("runbooks", since::RUNBOOKS),
    ("inspection_rules", since::INSPECTION_RULES),
    ("continue_inspection", since::CONTINUE_INSPECTION),
];

/// What describes this API.
const DOCUMENTATION: &str = "https://docs.openstack.org/api-ref/baremetal/";

/// Routes of this file.
pub(crate) fn router() -> Routes {
    Routes::new().route("/", get(root)).route("/v1", get(v1))
}

async fn root(context: Context) -> Json<Value> {
    let version = version(&context);
    Json(json!({
        "name": "OpenStack Ironic API",
        "description": "Wrought provisions bare metal; this is its Ironic API.",
        "default_version": version,
        "versions": [version],
    }))
}

async fn v1(context: Context) -> Json<Value> {
    let mut body = Map::new();
    body.insert("id".to_owned(), json!("v1"));
    let links = json!([
        {"href": format!("{}/v1/", context.base), "rel": "self"},
        {"href": DOCUMENTATION, "rel": "describedby", "type": "text/html"},
    ]);
    body.insert("links".to_owned(), links);
    body.insert(
        "media_types".to_owned(),
        json!({"base": "application/json", "type": "application/vnd.openstack.ironic.v1+json"}),
    );
    for (name, since) in COLLECTIONS {
        if context.has(since) {
            body.insert(name.to_owned(), links::links(&context, &format!("{name}/")));
        }
    }
    body.insert("version".to_owned(), version(&context));
    Json(Value::Object(body))
}

fn version(context: &Context) -> Value {
    json!({
        "id": "v1",
        "links": [{"href": format!("{}/v1/", context.base), "rel": "self"}],
        "status": "CURRENT",
        "min_version": Microversion::MIN.to_string(),
        "version": Microversion::MAX.to_string(),
    })
}
