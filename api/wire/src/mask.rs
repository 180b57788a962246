//! Secrets in free-form objects: what is shown of them is `******`.

use serde_json::Map;
use serde_json::Value;

use crate::secret::MASK;

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

/// Whether a key names a secret.
pub fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| key.contains(word))
}

/// An object with every secret in it masked, however deep.
pub fn masked(object: &Map<String, Value>) -> Value {
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

/// A value with every secret in it masked.
pub fn masked_value(value: &Value) -> Value {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::masked_value;

    #[test]
    fn masks_at_every_depth() {
        let info = json!({"ipmi_Password": "x", "agent_secret_token_pregenerated": true,
            "steps": [{"args": {"rescue_password": ["x"]}}], "port": 623,
            "url": "https://u:pw@h/p?q#f", "plain": "https://h/@"});
        let expected = json!({"ipmi_Password": "******", "agent_secret_token_pregenerated": "******",
            "steps": [{"args": {"rescue_password": "******"}}], "port": 623,
            "url": "https://u:******@h/p?q#f", "plain": "https://h/@"});
        assert_eq!(masked_value(&info), expected);
    }
}
