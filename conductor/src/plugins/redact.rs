//! Keeping secrets out of what plug-ins say.

use serde_json::Map;
use serde_json::Value;
use wrought_wire::secret::MASK;

/// Words in the names of keys whose values are secrets.
const WORDS: [&str; 9] = [
    "password",
    "secret",
    "token",
    "community",
    "private_key",
    "auth",
    "credential",
    "kg",
    "key",
];

/// A secret shorter than this is not looked for: it would be found everywhere.
const SHORTEST: usize = 4;

/// Puts the mask in place of every secret of `info` that a text holds.
pub(super) fn redact(text: &str, info: &Map<String, Value>) -> String {
    let mut secrets = Vec::new();
    collect(info, &mut secrets);
    // The longest first: one may be the beginning of another.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets
        .iter()
        .fold(text.to_owned(), |text, secret| text.replace(*secret, MASK))
}

fn collect<'a>(map: &'a Map<String, Value>, secrets: &mut Vec<&'a str>) {
    for (key, value) in map {
        match value {
            Value::String(secret) => {
                let key = key.to_lowercase();
                if secret.len() >= SHORTEST && WORDS.iter().any(|word| key.contains(word)) {
                    secrets.push(secret);
                }
            }
            Value::Object(map) => collect(map, secrets),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::redact;

    #[test]
    fn secrets_are_masked_wherever_they_stand() {
        let info = json!({
            "redfish_username": "admin", "redfish_password": "hunter2hunter2",
            "deep": {"api_token": "hunter2"}, "short_password": "x",
        });
        let text = redact(
            "admin:hunter2hunter2 and hunter2, x",
            info.as_object().unwrap(),
        );
        assert_eq!(text, "admin:****** and ******, x");
    }
}
