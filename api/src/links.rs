//! Link objects.

use serde::Serialize;
use serde_json::Value;
use serde_json::json;

use crate::context::Context;

/// A link.
#[derive(Debug, Serialize)]
pub(crate) struct Link {
    href: String,
    rel: &'static str,
}

/// The two links to `resource`, such as `nodes/<uuid>`.
pub(crate) fn pair(context: &Context, resource: &str) -> [Link; 2] {
    let base = &context.base;
    [("/v1", "self"), ("", "bookmark")].map(|(version, rel)| Link {
        href: [base, version, "/", resource].concat(),
        rel,
    })
}

/// The same as JSON.
pub(crate) fn links(context: &Context, resource: &str) -> Value {
    json!(pair(context, resource))
}

/// The URL of `resource`, as `Location` has it.
pub(crate) fn location(context: &Context, resource: &str) -> String {
    format!("{}/v1/{resource}", context.base)
}
