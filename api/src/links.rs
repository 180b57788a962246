//! Link objects.

use serde_json::Value;
use serde_json::json;

use crate::context::Context;

/// The two links to `resource`, such as `nodes/<uuid>`.
pub(crate) fn links(context: &Context, resource: &str) -> Value {
    let base = &context.base;
    json!([
        {"href": format!("{base}/v1/{resource}"), "rel": "self"},
        {"href": format!("{base}/{resource}"), "rel": "bookmark"},
    ])
}

/// The URL of `resource`, as `Location` has it.
pub(crate) fn location(context: &Context, resource: &str) -> String {
    format!("{}/v1/{resource}", context.base)
}
