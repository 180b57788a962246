//! Ports as a version shows them.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_store::Port;

use super::fields::FIELDS;
use crate::context::Context;
use crate::links;
use crate::mask;
use crate::time;

/// One port with the given fields, or with all that the version has.
pub(crate) fn port(port: &Port, fields: Option<&[&'static str]>, context: &Context) -> Value {
    let all: Vec<&'static str>;
    let fields = match fields {
        Some(fields) => fields,
        None => {
            let shown = FIELDS.iter().filter(|(_, since)| context.has(*since));
            all = shown.map(|(name, _)| *name).collect();
            &all
        }
    };
    let mut body: Map<String, Value> = fields
        .iter()
        .map(|name| ((*name).to_owned(), field(port, name)))
        .collect();
    body.insert(
        "links".to_owned(),
        links::links(context, &format!("ports/{}", port.uuid)),
    );
    Value::Object(body)
}

fn field(port: &Port, field: &str) -> Value {
    match field {
        "uuid" => json!(port.uuid),
        "created_at" => json!(time::text(port.created_at)),
        "updated_at" => time::value(port.updated_at),
        "address" => json!(port.address),
        "extra" => json!(port.extra),
        "internal_info" => mask::masked(&port.internal_info),
        "is_smartnic" => json!(port.is_smartnic),
        "local_link_connection" => json!(port.local_link_connection),
        "physical_network" => json!(port.physical_network),
        "pxe_enabled" => json!(port.pxe_enabled),
        "node_uuid" => json!(port.node_uuid),
        "name" => json!(port.name),
        "description" => json!(port.description),
        "vendor" => json!(port.vendor),
        "category" => json!(port.category),
        "available_for_dynamic_portgroup" => json!(port.available_for_dynamic_portgroup),
        "portgroup_uuid" => json!(port.portgroup_uuid),
        _ => Value::Null,
    }
}
