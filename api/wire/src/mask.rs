//! Secrets in free-form objects: what is shown of them is `******`.

use std::borrow::Cow;

use serde::Serialize;
use serde::Serializer;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::secret::MASK;

/// A key that contains one of these, in any case, holds a secret: words by
/// their first letter, since every key of every node that is shown is held
/// against them.
const fn secret_words(first: u8) -> &'static [&'static str] {
    match first {
        b'a' => &["access_key", "adminpass", "admin_pass"],
        b'c' => &["chapsecret", "community", "configdrive", "credential"],
        b'e' => &["encrypted_key"],
        b'f' => &["fernetkey"],
        b'h' => &["hex_kg_key"],
        b'n' => &["new_pass"],
        b'p' => &["passphrase", "password", "private_key"],
        b's' => &[
            "secret",
            "snmp_auth_key",
            "snmp_priv_key",
            "ssh_key",
            "sshkey",
            "sslkey",
            "sys_pswd",
        ],
        b't' => &["token"],
        _ => &[],
    }
}

/// Whether a key names a secret.
pub fn is_secret(key: &str) -> bool {
    let bytes = key.as_bytes();
    let begins = |rest: &[u8], word: &str| {
        let start = rest.get(..word.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
    };
    bytes.iter().enumerate().any(|(at, byte)| {
        let rest = &bytes[at..];
        let words = secret_words(byte.to_ascii_lowercase());
        words.iter().any(|word| begins(rest, word))
    })
}

/// Shows an object with every secret in it masked, however deep.
#[derive(Debug, Clone, Copy)]
pub struct Masked<'a>(pub &'a Map<String, Value>);

/// Shows a value with every secret in it masked; a secret itself is all mask.
#[derive(Debug, Clone, Copy)]
pub struct MaskedValue<'a>(Option<&'a Value>);

impl<'a> MaskedValue<'a> {
    /// A value that stands by itself.
    pub fn new(value: &'a Value) -> Self {
        Self(Some(value))
    }

    /// The value of a key, which may tell that it is a secret.
    pub fn of(key: &str, value: &'a Value) -> Self {
        Self((!is_secret(key)).then_some(value))
    }
}

impl Serialize for Masked<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.0.iter();
        serializer.collect_map(entries.map(|(key, value)| (key, MaskedValue::of(key, value))))
    }
}

impl Serialize for MaskedValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => serializer.serialize_str(MASK),
            Some(Value::Object(object)) => Masked(object).serialize(serializer),
            Some(Value::Array(items)) => serializer.collect_seq(items.iter().map(Self::new)),
            Some(Value::String(text)) => serializer.serialize_str(&without_password(text)),
            Some(other) => other.serialize(serializer),
        }
    }
}

/// An object with every secret in it masked, however deep.
pub fn masked(object: &Map<String, Value>) -> Value {
    json!(Masked(object))
}

/// A value with every secret in it masked.
pub fn masked_value(value: &Value) -> Value {
    json!(MaskedValue::new(value))
}

/// A text with the password of a URL in it masked.
fn without_password(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Cow::Borrowed(text);
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    match authority.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => {
            let name = user.split(':').next().unwrap_or_default();
            let tail = rest.get(authority.len()..).unwrap_or_default();
            Cow::Owned(format!("{scheme}://{name}:{MASK}@{host}{tail}"))
        }
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::is_secret;
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

    #[test]
    fn words_anywhere_in_any_case() {
        for key in [
            "password",
            "PASSWORD",
            "my_Password_2",
            "snmp_community",
            "configdrive",
            "xsshkey",
            "ssh_key",
            "é_token",
            "ppassword",
            "admin_adminpass",
            "hex_kg_key",
        ] {
            assert!(is_secret(key), "{key}");
        }
        for key in ["", "p", "passwor", "pass", "key", "é", "tok en", "username"] {
            assert!(!is_secret(key), "{key}");
        }
    }
}
