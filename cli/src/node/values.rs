//! `KEY=VALUE` on the command line.

use std::str::FromStr;

use serde_json::Map;
use serde_json::Value;

/// One `KEY=VALUE`. The value is text, unless it is `true`, `false`, `null`,
/// or begins like a JSON object, list or string and is one. Numbers stay text:
/// a password may look like one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pair {
    pub(crate) key: String,
    pub(crate) value: Value,
}

impl FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| "expected KEY=VALUE".to_owned())?;
        let literal = matches!(value, "true" | "false" | "null");
        let value = if literal || value.starts_with(['{', '[', '"']) {
            serde_json::from_str(value).unwrap_or_else(|_| Value::from(value))
        } else {
            Value::from(value)
        };
        Ok(Self {
            key: key.to_owned(),
            value,
        })
    }
}

/// The pairs as an object; the last of a key wins.
pub(crate) fn object(pairs: &[Pair]) -> Value {
    let map: Map<String, Value> = pairs
        .iter()
        .map(|pair| (pair.key.clone(), pair.value.clone()))
        .collect();
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Pair;

    #[test]
    fn text_unless_plainly_json() {
        for (text, key, value) in [
            ("a=b=c", "a", json!("b=c")),
            ("memory_mb=4096", "memory_mb", json!("4096")),
            ("verify=false", "verify", json!(false)),
            ("hint={\"size\": 10}", "hint", json!({"size": 10})),
            ("p={not json", "p", json!("{not json")),
            ("q=\"true\"", "q", json!("true")),
            ("e=", "e", json!("")),
        ] {
            assert_eq!(
                text.parse(),
                Ok(Pair {
                    key: key.to_owned(),
                    value
                }),
                "{text}"
            );
        }
        assert!("novalue".parse::<Pair>().is_err());
        assert!("=x".parse::<Pair>().is_err());
    }
}
