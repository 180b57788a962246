//! Secrets in free-form objects: shown as `******`, and taken back as what they
//! stand for when a client writes a whole object that it has read.

use serde_json::Map;
use serde_json::Value;
use wrought_wire::secret::MASK;

/// A key that contains one of these, in any case, holds a secret.
const SECRET_WORDS: [&str; 22] = [
    "access_key",
    "adminpass",
    "admin_pass",
    "chapsecret",
    "community",
    "configdrive",
    "credential",
    "encrypted_key",
    "fernetkey",
    "hex_kg_key",
    "new_pass",
    "passphrase",
    "password",
    "private_key",
    "secret",
    "snmp_auth_key",
    "snmp_priv_key",
    "ssh_key",
    "sslkey",
    "sys_pswd",
    "token",
    "sshkey",
];

fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| key.contains(word))
}

/// An object with every secret in it masked, however deep.
pub(crate) fn masked(object: &Map<String, Value>) -> Value {
    let show = |(key, value): (&String, &Value)| {
        let shown = if is_secret(key) {
            Value::from(MASK)
        } else {
            masked_value(value)
        };
        (key.clone(), shown)
    };
    Value::Object(object.iter().map(show).collect())
}

/// Keys of `driver_internal_info` that are the conductor's alone: the copy of an
/// instance that is being torn down, and where boot artefacts are on offer.
const PRIVATE: [&str; 2] = ["wrought_instance", "wrought_boot"];

/// `driver_internal_info` masked, without what is the conductor's alone.
pub(crate) fn masked_internal(info: &Map<String, Value>) -> Value {
    let mut shown = masked(info);
    if let Some(shown) = shown.as_object_mut() {
        shown.retain(|key, _| !PRIVATE.contains(&key.as_str()));
    }
    shown
}

/// `instance_info` masked: config drive and image URL hold secrets as well.
pub(crate) fn masked_instance(info: &Map<String, Value>) -> Value {
    let mut shown = masked(info);
    if let Some(url) = shown.get_mut("image_url") {
        *url = Value::from(MASK);
    }
    shown
}

/// A value with every secret in it masked.
pub(crate) fn masked_value(value: &Value) -> Value {
    match value {
        Value::Object(object) => masked(object),
        Value::Array(items) => Value::Array(items.iter().map(masked_value).collect()),
        Value::String(text) => Value::String(without_password(text)),
        other => other.clone(),
    }
}

/// A text with the password of a URL in it masked.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    match authority.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => {
            let name = user.split(':').next().unwrap_or_default();
            let tail = rest.get(authority.len()..).unwrap_or_default();
            format!("{scheme}://{name}:{MASK}@{host}{tail}")
        }
        _ => text.to_owned(),
    }
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
    fn masks_at_every_depth() {
        let info = json!({"ipmi_Password": "x", "agent_secret_token_pregenerated": true,
            "steps": [{"args": {"rescue_password": ["x"]}}], "port": 623,
            "url": "https://u:pw@h/p?q#f", "plain": "https://h/@"});
        let shown = masked(info.as_object().unwrap());
        let expected = json!({"ipmi_Password": "******", "agent_secret_token_pregenerated": "******",
            "steps": [{"args": {"rescue_password": "******"}}], "port": 623,
            "url": "https://u:******@h/p?q#f", "plain": "https://h/@"});
        assert_eq!(shown, expected);
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
