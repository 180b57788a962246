//! Disks: which is the root disk, and how large it is (hooks `root-device` and
//! `raid-device`).

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_store::Inventory;
use wrought_store::node::Node;
use wrought_wire::hints;
use wrought_wire::hints::Hints;

use crate::config::Inspection;
use crate::error::Error;
use crate::internal;

const GIB: u64 = 1 << 30;
/// Disks of one machine that count.
const MOST: usize = 4096;

fn disks(inventory: &Map<String, Value>) -> Vec<&Map<String, Value>> {
    let list = inventory.get("disks").and_then(Value::as_array);
    let list = list.into_iter().flatten().take(MOST);
    list.filter_map(Value::as_object).collect()
}

fn read(hints: &Value) -> Result<Hints, Error> {
    hints::parse(hints).map_err(|error| Error::Step(error.to_string()))
}

/// Sets `local_gb`. Hints of the node choose the disk anew, among those that it
/// does not want to be skipped.
pub(super) fn root_device(
    node: &mut Node,
    found: &mut Inventory,
    settings: &Inspection,
) -> Result<(), Error> {
    let wanted = node.properties.get("root_device");
    let wanted = wanted.filter(|hints| hints.as_object().is_none_or(|map| !map.is_empty()));
    if let Some(wanted) = wanted.filter(|hints| !hints.is_null()) {
        let wanted = read(wanted)?;
        let skipped = node.properties.get("skip_block_devices");
        let skipped = skipped.and_then(Value::as_array).into_iter().flatten();
        // An entry that names a RAID volume is not about disks.
        let skipped = skipped.filter(|entry| entry.get("volume_name").is_none());
        let skipped = skipped.map(read).collect::<Result<Vec<Hints>, Error>>()?;
        let is_skipped = |disk: &Map<String, Value>| {
            skipped
                .iter()
                .any(|hints| !hints.0.is_empty() && hints.matches(disk))
        };
        let disks = disks(&found.inventory);
        let disk = disks
            .iter()
            .find(|disk| !is_skipped(disk) && wanted.matches(**disk));
        let Some(disk) = disk else {
            let names = disks.iter().filter_map(|disk| disk.get("name")?.as_str());
            let names: Vec<&str> = names.collect();
            return Err(Error::Step(format!(
                "no disk matches the root device hints ({wanted}) and is not to be skipped; the \
                 ramdisk found {}",
                match names.is_empty() {
                    true => "no disks".to_owned(),
                    false => names.join(", "),
                }
            )));
        };
        let disk = Value::Object((*disk).clone());
        found.plugin_data.insert("root_disk".to_owned(), disk);
    }
    let root = found.plugin_data.get("root_disk");
    let size = root.and_then(|disk| disk.get("size")?.as_u64());
    let gib = match size.map(|size| size / GIB) {
        // What a partition table needs is not there for a root partition.
        Some(gib) if settings.disk_partitioning_spacing => gib.saturating_sub(1),
        Some(gib) => gib,
        None => {
            tracing::info!(node = %node.uuid, "no root disk was found");
            0
        }
    };
    found.plugin_data.insert("local_gb".to_owned(), gib.into());
    node.properties.insert("local_gb".to_owned(), gib.into());
    Ok(())
}

/// Serial numbers of the disks of an inventory.
pub(in crate::inspection) fn serials(inventory: &Map<String, Value>) -> Vec<String> {
    let serial = |disk: &Map<String, Value>| Some(disk.get("serial")?.as_str()?.to_owned());
    disks(inventory)
        .into_iter()
        .filter_map(serial)
        .filter(|serial| !serial.is_empty())
        .collect()
}

/// Sets `root_device` to the one disk that was not there when the node was last
/// inspected.
pub(super) fn raid_device(node: &mut Node, found: &Inventory) {
    let uuid = node.uuid;
    if node.properties.contains_key("root_device") {
        return;
    }
    let Some(before) = internal::read::<Vec<String>>(node, internal::KNOWN_DISKS) else {
        tracing::info!(node = %uuid, "no inspection before this one tells which disk is new");
        return;
    };
    let now = serials(&found.inventory);
    let new: Vec<&String> = now.iter().filter(|disk| !before.contains(disk)).collect();
    match new.as_slice() {
        [serial] => {
            tracing::info!(node = %uuid, serial, "the new disk is the root device");
            let hints = json!({"serial": serial});
            node.properties.insert("root_device".to_owned(), hints);
        }
        new => tracing::warn!(node = %uuid, new = new.len(),
            "not exactly one disk is new: the root device stays unknown"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;
    use wrought_store::node::Node;

    use super::super::tests::found;
    use super::raid_device;
    use super::root_device;
    use crate::config::Inspection;
    use crate::internal;

    fn disks() -> Value {
        let gib = 1_u64 << 30;
        json!({"disks": [
            {"name": "/dev/sda", "size": 20 * gib, "serial": "A", "rotational": false},
            {"name": "/dev/sdb", "size": 200 * gib, "serial": "B", "rotational": true},
            {"name": "/dev/sdc", "size": 300 * gib, "serial": null},
        ]})
    }

    #[test]
    fn the_root_disk_follows_the_hints_of_the_node() {
        let settings = Inspection::default();
        let whole = Inspection {
            disk_partitioning_spacing: false,
            ..Inspection::default()
        };
        let data = json!({"root_disk": {"name": "/dev/sda", "size": 20_u64 << 30}});
        for (properties, settings, expected, name) in [
            (json!({}), &settings, 19, "/dev/sda"),
            (json!({"root_device": {}}), &whole, 20, "/dev/sda"),
            (
                json!({"root_device": {"size": ">= 100"}}),
                &settings,
                199,
                "/dev/sdb",
            ),
            (
                json!({"root_device": {"size": ">= 100"}, "skip_block_devices":
                    [{"volume_name": "x"}, {"serial": "b"}]}),
                &whole,
                300,
                "/dev/sdc",
            ),
        ] {
            let mut node = Node::new("redfish");
            node.properties = properties.as_object().unwrap().clone();
            let mut found = found(disks(), data.clone());
            root_device(&mut node, &mut found, settings).unwrap();
            assert_eq!(node.properties["local_gb"], expected, "{properties}");
            assert_eq!(found.plugin_data["local_gb"], expected);
            assert_eq!(found.plugin_data["root_disk"]["name"], name);
        }
        let mut node = Node::new("redfish");
        let mut nothing = found(json!({}), json!({}));
        root_device(&mut node, &mut nothing, &settings).unwrap();
        assert_eq!(node.properties["local_gb"], 0, "no disks at all");
        for (hints, text) in [
            (
                json!({"serial": "Z"}),
                "(serial: Z) and is not to be skipped; the ramdisk found /dev/sda, ",
            ),
            (json!({"colour": "red"}), "'colour' is not known"),
        ] {
            node.properties.insert("root_device".to_owned(), hints);
            let mut found = found(disks(), data.clone());
            let error = root_device(&mut node, &mut found, &settings).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn the_one_new_disk_becomes_the_root_device() {
        let found = found(disks(), json!({}));
        for (before, expected) in [
            (None, None),
            (Some(json!(["A"])), Some(json!({"serial": "B"}))),
            (Some(json!(["A", "B"])), None),
            (Some(json!([])), None),
        ] {
            let mut node = Node::new("redfish");
            if let Some(before) = before {
                internal::set(&mut node, internal::KNOWN_DISKS, before);
            }
            raid_device(&mut node, &found);
            assert_eq!(node.properties.get("root_device"), expected.as_ref());
            let known = json!({"name": "/dev/sdx"});
            node.properties
                .insert("root_device".to_owned(), known.clone());
            raid_device(&mut node, &found);
            assert_eq!(node.properties["root_device"], known);
        }
    }
}
