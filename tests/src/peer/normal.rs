//! Answers in a form that is the same from run to run: without the run's own
//! ids, times, addresses and sentences.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;

use super::client::Answer;
use super::script::Words;

/// Headers that clients read.
const HEADERS: [&str; 10] = [
    "allow",
    "content-type",
    "location",
    "openstack-request-id",
    "vary",
    "www-authenticate",
    "x-openstack-ironic-api-maximum-version",
    "x-openstack-ironic-api-minimum-version",
    "x-openstack-ironic-api-version",
    "x-openstack-request-id",
];
/// Keys whose value is a sentence.
const SENTENCES: [&str; 8] = [
    "debuginfo",
    "description",
    "event",
    "faultstring",
    "last_error",
    "maintenance_reason",
    "reason",
    "title",
];
/// Objects that are a driver's or an installation's own.
const OPAQUE: [&str; 2] = ["driver_internal_info", "agent_containers"];
/// A text with a space and this many bytes is a sentence, too.
const LONG: usize = 40;
/// Length of a UUID's text.
const UUID: usize = 36;

/// An answer without what is this run's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// HTTP status.
    pub status: u16,
    /// Headers that clients read.
    pub headers: BTreeMap<String, String>,
    /// The body; null where there is none.
    pub body: Value,
}

/// How texts are made plain.
#[derive(Debug, Clone, Copy)]
pub struct Plain<'a> {
    /// The start of the server's URLs.
    pub base: &'a str,
    /// Ids that a script chose stay.
    pub words: &'a Words,
}

impl Plain<'_> {
    /// An answer made plain.
    pub fn outcome(&self, answer: &Answer) -> Outcome {
        let headers = answer
            .headers
            .iter()
            .filter(|(name, _)| HEADERS.contains(&name.as_str()))
            .map(|(name, value)| {
                let value = match name.ends_with("request-id") {
                    true => "<request>".to_owned(),
                    false => self.text(value),
                };
                (name.clone(), value)
            })
            .collect();
        let body = match serde_json::from_str(&answer.text) {
            Ok(body) => self.value("", &body),
            Err(_) if answer.text.is_empty() => Value::Null,
            Err(_) => Value::String("<not JSON>".to_owned()),
        };
        Outcome {
            status: answer.status,
            headers,
            body,
        }
    }

    fn value(&self, key: &str, value: &Value) -> Value {
        match value {
            Value::Object(_) if OPAQUE.contains(&key) => Value::String("<object>".to_owned()),
            Value::Object(map) => Value::Object(self.object(map)),
            Value::Array(items) => {
                let mut items: Vec<Value> =
                    items.iter().map(|item| self.value(key, item)).collect();
                // A set, in the order of nobody's choosing.
                if key.starts_with("enabled_") {
                    items.sort_by_key(Value::to_string);
                }
                Value::Array(items)
            }
            Value::String(text) if key == "error_message" => match serde_json::from_str(text) {
                Ok(Value::Object(inner)) => {
                    let inner = Value::Object(self.object(&inner));
                    Value::Object(Map::from_iter([("<text of>".to_owned(), inner)]))
                }
                _ => Value::String("<text>".to_owned()),
            },
            Value::String(text) if !text.is_empty() && SENTENCES.contains(&key) => {
                Value::String("<text>".to_owned())
            }
            Value::String(text) => Value::String(self.text(text)),
            other => other.clone(),
        }
    }

    fn object(&self, map: &Map<String, Value>) -> Map<String, Value> {
        map.iter()
            .map(|(key, value)| (self.text(key), self.value(key, value)))
            .collect()
    }

    fn text(&self, text: &str) -> String {
        if is_time(text) {
            return "<time>".to_owned();
        }
        if text.len() > LONG && text.contains(' ') {
            return "<text>".to_owned();
        }
        if text.starts_with("http") && !text.starts_with(self.base) && text.contains("//docs.") {
            return "<documents>".to_owned();
        }
        // What an agent is to send back is different each time.
        if text.len() == 43 && text.bytes().all(is_of_a_token) {
            return "<token>".to_owned();
        }
        self.without_ids(&text.replace(self.base, "{base}"))
    }

    /// Replaces UUIDs that no script has chosen.
    fn without_ids(&self, text: &str) -> String {
        let mut plain = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some(id) = rest.get(..UUID)
                && uuid::Uuid::try_parse(id).is_ok()
            {
                plain.push_str(if self.words.has_chosen(id) {
                    id
                } else {
                    "<uuid>"
                });
                rest = &rest[UUID..];
            } else {
                plain.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        plain
    }
}

fn is_of_a_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// Whether it is a time as Ironic writes it: microseconds if there are any,
/// then the offset of UTC.
fn is_time(text: &str) -> bool {
    let Some(local) = text.strip_suffix("+00:00") else {
        return false;
    };
    let (seconds, fraction) = local.split_once('.').unwrap_or((local, "000000"));
    let shape: String = seconds
        .chars()
        .map(|char| if char.is_ascii_digit() { '0' } else { char })
        .collect();
    shape == "0000-00-00T00:00:00"
        && fraction.len() == 6
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::Plain;
    use crate::peer::client::Answer;
    use crate::peer::script::Words;

    #[test]
    fn plain() {
        let mut words = Words::default();
        words.choose("N", "aaaaaaaa-0000-4000-8000-000000000001");
        let plain = Plain {
            base: "http://127.0.0.1:1",
            words: &words,
        };
        let body = json!({
            "uuid": "aaaaaaaa-0000-4000-8000-000000000001",
            "at": "2026-12-01T01:02:03.000004+00:00",
            "z": "2026-12-01T01:02:03Z",
            "href": "http://127.0.0.1:1/v1/nodes/bbbbbbbb-0000-4000-8000-000000000001",
            "last_error": "x", "driver_internal_info": {"a": 1},
            "error_message": "{\"faultcode\": \"Client\", \"faultstring\": \"No.\"}",
        });
        let answer = Answer {
            status: 200,
            headers: BTreeMap::from([
                ("openstack-request-id".to_owned(), "req-1".to_owned()),
                ("date".to_owned(), "today".to_owned()),
            ]),
            text: body.to_string(),
        };
        let outcome = plain.outcome(&answer);
        let expected = json!({
            "uuid": "aaaaaaaa-0000-4000-8000-000000000001", "at": "<time>",
            "z": "2026-12-01T01:02:03Z", "href": "{base}/v1/nodes/<uuid>",
            "last_error": "<text>", "driver_internal_info": "<object>",
            "error_message": {"<text of>": {"faultcode": "Client", "faultstring": "<text>"}},
        });
        assert_eq!(outcome.body, expected);
        let kept: Vec<_> = outcome.headers.into_iter().collect();
        let request = ("openstack-request-id".to_owned(), "<request>".to_owned());
        assert_eq!(kept, [request]);
    }
}
