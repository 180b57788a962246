//! Nodes and ports as the documents that rules work on, and back.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_store::Inventory;
use wrought_store::node::INTERFACE_KINDS;
use wrought_store::node::Node;
use wrought_store::port::Port;

use super::rules::NODE_FIELDS;
use super::rules::Subject;
use crate::error::Error;

/// Characters of a node's short texts, at most, and of its description.
const LONGEST: usize = 255;
const LONGEST_DESCRIPTION: usize = 4096;

fn object<T: serde::Serialize>(value: &T) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        // Nodes and ports are structs and always become objects.
        _ => Map::new(),
    }
}

fn of_node(node: &Node) -> Map<String, Value> {
    let mut document = object(node);
    document.remove("interfaces");
    for kind in INTERFACE_KINDS {
        let name = json!(node.interfaces.get(kind));
        document.insert(format!("{kind}_interface"), name);
    }
    document
}

/// All that is known about a machine.
pub(super) fn subject(node: &Node, ports: &[Port], found: &Inventory) -> Subject {
    Subject {
        node: of_node(node),
        ports: ports.iter().map(object).collect(),
        inventory: found.inventory.clone(),
        plugin_data: found.plugin_data.clone(),
    }
}

/// The node that rules made of `before`, and the fields that differ.
pub(super) fn node(
    before: &Node,
    mut made: Map<String, Value>,
) -> Result<(Node, Vec<String>), Error> {
    let old = of_node(before);
    let differs = |field: &&&str| made.get(**field) != old.get(**field);
    let fields: Vec<String> = NODE_FIELDS
        .iter()
        .filter(differs)
        .map(|field| (*field).to_owned())
        .collect();
    for field in &fields {
        let value = made.entry(field.clone()).or_insert(Value::Null);
        if value.is_null() {
            *value = unset(field);
        }
        let most = match field.as_str() {
            "description" => LONGEST_DESCRIPTION,
            _ => LONGEST,
        };
        if value
            .as_str()
            .is_some_and(|text| text.chars().count() > most)
        {
            return Err(Error::Step(format!(
                "the rules made {field} longer than {most} characters"
            )));
        }
    }
    if let Some(name) = made.get("name").and_then(Value::as_str)
        && fields.iter().any(|field| field == "name")
    {
        check_name(name)?;
    }
    let mut interfaces = Map::new();
    for kind in INTERFACE_KINDS {
        match made.remove(&format!("{kind}_interface")) {
            None | Some(Value::Null) => {}
            Some(name) => {
                interfaces.insert(kind.to_owned(), name);
            }
        }
    }
    made.insert("interfaces".to_owned(), Value::Object(interfaces));
    let node = serde_json::from_value(Value::Object(made)).map_err(|error| {
        Error::Step(format!(
            "what the rules made of the node is no node any more: {error}"
        ))
    })?;
    Ok((node, fields))
}

/// The node with these fields, by their names in the API; only those that rules
/// may change as well.
pub(super) fn with_fields(before: &Node, fields: &Map<String, Value>) -> Result<Node, Error> {
    let mut made = of_node(before);
    for (field, value) in fields {
        if !NODE_FIELDS.contains(&field.as_str()) || field == "driver" {
            let field: String = field.chars().take(60).collect();
            return Err(Error::Step(format!(
                "expected fields that an operator sets, found {field:?}"
            )));
        }
        made.insert(field.clone(), value.clone());
    }
    node(before, made).map(|(node, _)| node)
}

/// The port that rules made.
pub(super) fn port(made: Map<String, Value>) -> Result<Port, Error> {
    serde_json::from_value(Value::Object(made)).map_err(|error| {
        Error::Step(format!(
            "what the rules made of a port is no port any more: {error}"
        ))
    })
}

/// What a field is without a setting.
fn unset(field: &str) -> Value {
    match field {
        "driver_info" | "extra" | "properties" | "network_data" => json!({}),
        "disable_power_off" | "maintenance" | "retired" => Value::Bool(false),
        "traits" => json!([]),
        "conductor_group" => json!(""),
        _ => Value::Null,
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    if name.is_empty() || !name.chars().all(fine) || name.parse::<uuid::Uuid>().is_ok() {
        let name: String = name.chars().take(60).collect();
        return Err(Error::Step(format!(
            "the rules made {name:?} the node's name, which it cannot be"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;
    use wrought_store::Inventory;

    use super::node;
    use super::port;
    use super::subject;
    use crate::testing;

    #[test]
    fn there_and_back() {
        let before = testing::node("redfish");
        let nic = testing::port(before.uuid, "52:54:00:00:aa:01");
        let whole = subject(&before, std::slice::from_ref(&nic), &Inventory::default());
        assert_eq!(
            node(&before, whole.node.clone()).unwrap(),
            (before.clone(), Vec::new())
        );
        assert_eq!(port(whole.ports[0].clone()).unwrap(), nic);

        let mut made = whole.node;
        made.insert("boot_interface".to_owned(), json!("redfish-virtual-media"));
        made.insert("extra".to_owned(), Value::Null);
        made.insert("description".to_owned(), json!("x"));
        let (after, fields) = node(&before, made.clone()).unwrap();
        assert_eq!(fields, ["boot_interface", "description", "extra"]);
        assert_eq!(after.interfaces["boot"], "redfish-virtual-media");
        assert_eq!(after.description.as_deref(), Some("x"));
        for (field, value) in [
            ("properties", json!(1)),
            ("driver", Value::Null),
            ("traits", json!("x")),
            ("name", json!("a b")),
            ("owner", json!("x".repeat(256))),
        ] {
            let mut bad = made.clone();
            bad.insert(field.to_owned(), value);
            assert!(node(&before, bad).is_err(), "{field}");
        }
    }
}
