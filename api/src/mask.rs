//! Secrets in free-form objects: shown as `******`, and taken back as what they
//! stand for when a client writes a whole object that it has read.

use serde::Serialize;
use serde::Serializer;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_wire::mask::MaskedValue;
use wrought_wire::secret::MASK;

pub(crate) use wrought_wire::mask::Masked;
pub(crate) use wrought_wire::mask::masked;
pub(crate) use wrought_wire::mask::masked_value;

/// Keys of `driver_internal_info` that are the conductor's alone: the copy of an
/// instance that is being torn down, and where boot artefacts are on offer.
const PRIVATE: [&str; 3] = ["wrought_instance", "wrought_boot", "wrought_inspected"];

/// Shows `driver_internal_info` masked, without what is the conductor's alone.
pub(crate) struct MaskedInternal<'a>(pub(crate) &'a Map<String, Value>);

/// Shows `instance_info` masked: config drive and image URL hold secrets as
/// well.
pub(crate) struct MaskedInstance<'a>(pub(crate) &'a Map<String, Value>);

impl Serialize for MaskedInternal<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = self.0.iter();
        let shown = shown.filter(|(key, _)| !PRIVATE.contains(&key.as_str()));
        serializer.collect_map(shown.map(|(key, value)| (key, MaskedValue::of(key, value))))
    }
}

impl Serialize for MaskedInstance<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let url = Value::from(MASK);
        let shown = |(key, value)| match key {
            "image_url" => (key, MaskedValue::new(&url)),
            key => (key, MaskedValue::of(key, value)),
        };
        let entries = self.0.iter();
        serializer.collect_map(entries.map(|(key, value)| shown((key.as_str(), value))))
    }
}

/// As [`MaskedInternal`] shows it.
pub(crate) fn masked_internal(info: &Map<String, Value>) -> Value {
    json!(MaskedInternal(info))
}

/// As [`MaskedInstance`] shows it.
pub(crate) fn masked_instance(info: &Map<String, Value>) -> Value {
    json!(MaskedInstance(info))
}

/// Puts the secrets of `old` back where `new` has only their mask.
pub(crate) fn unmask(new: &mut Map<String, Value>, old: &Map<String, Value>) {
    for (key, value) in new {
        if let Some(before) = old.get(key) {
            unmask_value(value, before);
        }
    }
}

/// The same for any value; lists are only compared when they are as long.
pub(crate) fn unmask_value(value: &mut Value, before: &Value) {
    match (value, before) {
        (Value::Object(value), Value::Object(before)) => unmask(value, before),
        (Value::Array(value), Value::Array(before)) if value.len() == before.len() => {
            for (value, before) in value.iter_mut().zip(before) {
                unmask_value(value, before);
            }
        }
        (value, before) if value == MASK || *value == masked_value(before) => {
            *value = before.clone();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::masked;
    use super::masked_instance;
    use super::masked_internal;
    use super::unmask;

    #[test]
    fn instances_and_what_is_internal() {
        let info =
            json!({"image_url": "http://x", "configdrive": "abc", "image_source": "http://x"});
        let expected =
            json!({"image_url": "******", "configdrive": "******", "image_source": "http://x"});
        assert_eq!(masked_instance(info.as_object().unwrap()), expected);
        let info = json!({"wrought_boot": {"path": "x"}, "agent_url": "https://h"});
        let expected = json!({"agent_url": "https://h"});
        assert_eq!(masked_internal(info.as_object().unwrap()), expected);
    }

    #[test]
    fn a_mask_that_comes_back_is_the_old_secret() {
        let old = json!({"redfish_password": "x", "a": {"token": "y"}});
        let mut new = json!({"redfish_password": "******", "a": {"token": "******"}, "new_password": "******"});
        unmask(new.as_object_mut().unwrap(), old.as_object().unwrap());
        let expected =
            json!({"redfish_password": "x", "a": {"token": "y"}, "new_password": "******"});
        assert_eq!(new, expected);
    }

    #[test]
    fn all_that_was_read_can_be_written_back() {
        let old = json!({"redfish_address": "https://u:pw@h", "snmp_community": "c",
            "list": [{"password": "x"}, "https://u:pw@h/p", 1], "ssh_key_contents": "k"});
        let mut new = masked(old.as_object().unwrap());
        let text = new.to_string();
        for secret in ["pw", "\"c\"", "\"x\"", "\"k\""] {
            assert!(!text.contains(secret), "{text}");
        }
        unmask(new.as_object_mut().unwrap(), old.as_object().unwrap());
        assert_eq!(new, old);

        let mut moved = json!({"redfish_address": "https://u:******@other"});
        unmask(moved.as_object_mut().unwrap(), old.as_object().unwrap());
        assert_eq!(moved["redfish_address"], "https://u:******@other");
    }
}
