//! The node and its ports as the agent is shown them: Ironic's field names,
//! secrets masked.

use serde_json::Map;
use serde_json::Value;
use wrought_store::node::Node;
use wrought_store::port::Port;
use wrought_wire::secret::MASK;

use crate::internal;

/// The parameter `node`.
pub(crate) fn node(node: &Node) -> Value {
    let Ok(Value::Object(mut map)) = serde_json::to_value(node) else {
        // A node is a struct and always becomes an object.
        return Value::Null;
    };
    if let Some(Value::Object(interfaces)) = map.remove("interfaces") {
        for (kind, name) in interfaces {
            map.insert(format!("{kind}_interface"), name);
        }
    }
    if let Some(traits) = map.remove("traits") {
        map.insert("traits".to_owned(), serde_json::json!({"objects": traits}));
    }
    if let Some(Value::Object(info)) = map.get_mut("driver_internal_info") {
        for own in [
            internal::INSTANCE,
            internal::BOOT,
            internal::AGENT_VERIFY_CA,
        ] {
            info.remove(own);
        }
    }
    // `get_*_steps` does not need the config drive; `write_image` gets it as
    // an argument.
    if let Some(Value::Object(info)) = map.get_mut("instance_info") {
        for key in [
            "configdrive",
            "image_server_password",
            "rescue_password",
            "hashed_rescue_password",
        ] {
            if let Some(value) = info.get_mut(key) {
                *value = MASK.into();
            }
        }
    }
    for key in ["driver_info", "driver_internal_info"] {
        if let Some(Value::Object(info)) = map.get_mut(key) {
            mask(info);
        }
    }
    Value::Object(map)
}

/// The parameter `ports`.
pub(crate) fn ports(ports: &[Port]) -> Value {
    ports
        .iter()
        .map(|port| serde_json::to_value(port).unwrap_or(Value::Null))
        .collect()
}

fn mask(map: &mut Map<String, Value>) {
    for (key, value) in map {
        let secret = ["password", "secret", "token", "community", "private_key"]
            .iter()
            .any(|word| key.contains(word));
        if secret && value.is_string() {
            *value = MASK.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn masks_and_flattens() {
        let mut node = crate::testing::node("redfish");
        node.driver_info
            .insert("redfish_password".to_owned(), json!("hunter2"));
        node.driver_internal_info
            .insert("agent_secret_token".to_owned(), json!("hunter3"));
        node.driver_internal_info
            .insert("wrought_boot".to_owned(), json!({"token": "hunter4"}));
        node.instance_info
            .insert("configdrive".to_owned(), json!({"user_data": "hunter5"}));
        let shown = super::node(&node);
        assert!(!shown.to_string().contains("hunter"), "{shown}");
        assert_eq!(shown["boot_interface"], "ipxe");
        assert_eq!(
            shown["driver_internal_info"]["agent_secret_token"],
            "******"
        );
    }
}
