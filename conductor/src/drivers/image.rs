//! What `instance_info` says of the image: checks, and what the agent is told.

use std::collections::BTreeMap;

use serde_json::Value;
use wrought_store::node::Node;
use wrought_wire::image::ImageInfo;

use crate::error::Error;

/// Properties of `driver_info` that name the ramdisk.
pub(super) const RAMDISK_PROPERTIES: &[(&str, &str)] = &[
    (
        "deploy_kernel",
        "URL or path of another deploy kernel than the installation's. Optional.",
    ),
    (
        "deploy_ramdisk",
        "URL or path of another deploy initramfs. Optional.",
    ),
    (
        "deploy_iso",
        "URL of a bootable deploy image for virtual media. Optional.",
    ),
    (
        "rescue_kernel",
        "URL or path of another rescue kernel than the installation's. Optional.",
    ),
    (
        "rescue_ramdisk",
        "URL or path of another rescue initramfs. Optional.",
    ),
    (
        "rescue_iso",
        "URL of a bootable rescue image for virtual media. Optional.",
    ),
];

fn text<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.instance_info
        .get(key)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

/// `image_type` of an image with its own partition table.
const WHOLE_DISK: &str = "whole-disk";

/// What the instance says of the image's kind, or what follows from the rest;
/// none where there is no image.
pub(crate) fn kind(node: &Node) -> Option<String> {
    text(node, "image_source")?;
    let parts = ["kernel", "ramdisk"];
    let kind = match text(node, "image_type") {
        Some(kind) => kind,
        None if parts.iter().all(|key| text(node, key).is_some()) => "partition",
        None => WHOLE_DISK,
    };
    Some(kind.to_owned())
}

/// Whether a rebuild is to leave the ephemeral partition alone. No image that is
/// written here has one, but the value must be one.
pub(crate) fn preserve_ephemeral(node: &Node) -> Result<bool, Error> {
    let given = node.instance_info.get("preserve_ephemeral");
    let read = match given {
        None | Some(Value::Null) => Some(false),
        Some(Value::Bool(yes)) => Some(*yes),
        Some(Value::Number(number)) => match number.as_u64() {
            Some(0) => Some(false),
            Some(1) => Some(true),
            _ => None,
        },
        Some(Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
            "t" | "true" | "on" | "y" | "yes" | "1" => Some(true),
            "f" | "false" | "off" | "n" | "no" | "0" => Some(false),
            _ => None,
        },
        Some(_) => None,
    };
    read.ok_or_else(|| {
        Error::Invalid(format!(
            "Node {}: instance_info preserve_ephemeral: expected true or false, found {}",
            node.uuid,
            given.unwrap_or(&Value::Null)
        ))
    })
}

/// Whether the instance says enough to be deployed.
pub(super) fn validate(node: &Node) -> Result<(), Error> {
    let missing = |keys: &str| {
        Err(Error::Invalid(format!(
            "Cannot validate image information for node {} because one or more parameters are \
             missing from its instance_info. Missing are: [{keys}]",
            node.uuid
        )))
    };
    let Some(source) = text(node, "image_source") else {
        return missing("'image_source'");
    };
    let schemes = ["http://", "https://", "oci://"];
    if !schemes.iter().any(|scheme| source.starts_with(scheme)) {
        return Err(Error::Invalid(format!(
            "Node {}: instance_info image_source {source:?} cannot be deployed: expected an \
             http://, https:// or oci:// URL",
            node.uuid
        )));
    }
    let hash = text(node, "image_os_hash_algo").zip(text(node, "image_os_hash_value"));
    if hash.is_none() && text(node, "image_checksum").is_none() && !names_digest(source) {
        return missing("'image_checksum', or 'image_os_hash_algo' and 'image_os_hash_value'");
    }
    let kernel = ["kernel", "ramdisk"]
        .iter()
        .any(|key| text(node, key).is_some());
    preserve_ephemeral(node)?;
    if kernel || text(node, "image_type").is_some_and(|kind| kind != WHOLE_DISK) {
        return Err(Error::Invalid(format!(
            "Node {}: instance_info describes a partition image (image_type, kernel, ramdisk); \
             only whole-disk images can be deployed",
            node.uuid
        )));
    }
    Ok(())
}

/// Whether the source is in a registry and named by its digest: then its
/// manifest holds the checksum.
fn names_digest(source: &str) -> bool {
    source.starts_with("oci://") && source.contains("@sha")
}

/// HTTP proxies for the image, of `driver_info`.
fn proxies(node: &Node) -> BTreeMap<String, String> {
    ["http", "https"]
        .into_iter()
        .filter_map(|scheme| {
            let proxy = node.driver_info.get(&format!("image_{scheme}_proxy"))?;
            Some((scheme.to_owned(), proxy.as_str()?.to_owned()))
        })
        .collect()
}

/// The parameter `image_info` of the write.
pub(super) fn info(node: &Node, boot_mode: &str) -> ImageInfo {
    let owned = |key: &str| text(node, key).map(str::to_owned);
    let source = owned("image_source").unwrap_or_default();
    let path = source.split(['?', '#']).next().unwrap_or_default();
    let id = path
        .rsplit('/')
        .find(|part| !part.is_empty())
        .unwrap_or_default()
        .to_owned();
    ImageInfo {
        id,
        disk_format: owned("image_disk_format"),
        container_format: owned("image_container_format"),
        os_hash_algo: owned("image_os_hash_algo"),
        os_hash_value: owned("image_os_hash_value"),
        checksum: owned("image_checksum"),
        stream_raw_images: Some(true),
        proxies: proxies(node),
        no_proxy: node
            .driver_info
            .get("image_no_proxy")
            .and_then(Value::as_str)
            .map(str::to_owned),
        node_uuid: Some(node.uuid.to_string()),
        deploy_boot_mode: Some(boot_mode.to_owned()),
        urls: vec![source],
        ..ImageInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::info;
    use super::kind;
    use super::preserve_ephemeral;
    use super::validate;
    use crate::testing::node;

    #[test]
    fn names_what_is_missing() {
        let mut node = node("redfish");
        let set = |node: &mut wrought_store::Node, key: &str, value: &str| {
            node.instance_info.insert(key.to_owned(), json!(value));
        };
        let error = validate(&node).unwrap_err().to_string();
        assert!(error.ends_with("Missing are: ['image_source']"), "{error}");
        set(&mut node, "image_source", "file:///etc/shadow");
        assert!(validate(&node).unwrap_err().to_string().contains("http"));
        set(
            &mut node,
            "image_source",
            "https://images.test/a/debian.qcow2?sig=1",
        );
        assert!(
            validate(&node)
                .unwrap_err()
                .to_string()
                .contains("image_checksum")
        );
        set(&mut node, "image_os_hash_algo", "sha256");
        assert!(validate(&node).is_err(), "a kind of hash without its value");
        set(&mut node, "image_os_hash_value", "00");
        validate(&node).unwrap();
        let info = info(&node, "uefi");
        assert_eq!(info.id, "debian.qcow2");
        assert_eq!(info.urls, ["https://images.test/a/debian.qcow2?sig=1"]);
        assert!(info.proxies.is_empty() && info.no_proxy.is_none());
        set(&mut node, "image_type", "partition");
        assert!(validate(&node).is_err());
    }

    #[test]
    fn the_kind_of_an_image_and_ephemeral_partitions() {
        let mut node = node("redfish");
        assert_eq!(kind(&node), None);
        let set = |node: &mut wrought_store::Node, key: &str, value: serde_json::Value| {
            node.instance_info.insert(key.to_owned(), value);
        };
        set(&mut node, "image_source", json!("http://images.test/i"));
        assert_eq!(kind(&node).as_deref(), Some("whole-disk"));
        set(&mut node, "kernel", json!("http://images.test/k"));
        set(&mut node, "ramdisk", json!("http://images.test/r"));
        assert_eq!(kind(&node).as_deref(), Some("partition"));
        set(&mut node, "image_type", json!("whole-disk"));
        assert_eq!(kind(&node).as_deref(), Some("whole-disk"));
        for (value, read) in [
            (json!(null), Some(false)),
            (json!(true), Some(true)),
            (json!("Yes"), Some(true)),
            (json!(0), Some(false)),
            (json!("maybe"), None),
            (json!([]), None),
        ] {
            set(&mut node, "preserve_ephemeral", value.clone());
            assert_eq!(preserve_ephemeral(&node).ok(), read, "{value}");
        }
    }

    #[test]
    fn a_registry_s_image_by_digest_needs_no_checksum() {
        let mut node = node("redfish");
        let mut set = |source: &str| {
            node.instance_info
                .insert("image_source".to_owned(), json!(source));
            validate(&node).map_err(|error| error.to_string())
        };
        let digest = "0".repeat(64);
        assert_eq!(set(&format!("oci://r.test/os@sha256:{digest}")), Ok(()));
        assert!(
            set("oci://r.test/os:13")
                .unwrap_err()
                .contains("image_checksum")
        );
    }

    #[test]
    fn proxies_are_handed_on() {
        let mut node = node("redfish");
        for (key, value) in [
            ("image_https_proxy", "http://p:3128"),
            ("image_no_proxy", "a,b"),
        ] {
            node.driver_info.insert(key.to_owned(), json!(value));
        }
        let info = info(&node, "uefi");
        assert_eq!(info.proxies["https"], "http://p:3128");
        assert_eq!(info.no_proxy.as_deref(), Some("a,b"));
    }
}
