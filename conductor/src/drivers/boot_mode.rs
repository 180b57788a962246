//! In which mode a machine's firmware is to boot.

use serde_json::Value;
use wrought_bmc::redfish::BootMode;
use wrought_store::node::Node;

use super::capability;
use crate::config::Config;

/// The boot mode of a node: secure boot wants UEFI; else the instance says it,
/// else the node's capabilities, else the BMC, else the configuration.
pub fn of(node: &Node, config: &Config) -> BootMode {
    let instance = node.instance_info.get("capabilities");
    let machine = node.properties.get("capabilities");
    let secure = capability(instance, "secure_boot").or_else(|| capability(machine, "secure_boot"));
    if secure.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return BootMode::Uefi;
    }
    let deploy_boot_mode = node
        .instance_info
        .get("deploy_boot_mode")
        .and_then(Value::as_str);
    capability(instance, "boot_mode")
        .or_else(|| deploy_boot_mode.map(str::to_owned))
        .or_else(|| capability(machine, "boot_mode"))
        .or_else(|| node.boot_mode.clone())
        .and_then(|text| text.parse().ok())
        .or_else(|| config.conductor.default_boot_mode.parse().ok())
        .unwrap_or(BootMode::Uefi)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wrought_bmc::redfish::BootMode;

    use super::of;
    use crate::config::Config;
    use crate::testing::node;

    #[test]
    fn nearest_word_counts() {
        let config = Config::new("here", "/nowhere");
        let mut node = node("redfish");
        assert_eq!(of(&node, &config), BootMode::Uefi);
        node.boot_mode = Some("bios".to_owned());
        assert_eq!(of(&node, &config), BootMode::Bios);
        node.properties
            .insert("capabilities".to_owned(), json!("boot_mode:uefi"));
        assert_eq!(of(&node, &config), BootMode::Uefi);
        node.instance_info
            .insert("capabilities".to_owned(), json!({"boot_mode": "bios"}));
        assert_eq!(of(&node, &config), BootMode::Bios);
        node.instance_info
            .insert("capabilities".to_owned(), json!({"secure_boot": "True"}));
        assert_eq!(of(&node, &config), BootMode::Uefi);
    }
}
