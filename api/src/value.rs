//! Values of fields in bodies, with errors that name the resource and the field.

use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;

use crate::body;
use crate::error::ApiError;
use crate::error::Result;

/// A boolean, also in the words that command line clients send.
pub(crate) fn word(name: &str, value: &Value) -> Result<bool> {
    let word = match value {
        Value::Bool(flag) => return Ok(*flag),
        Value::String(word) => word.clone(),
        other => other.to_string(),
    };
    match word.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" | "t" | "y" => Ok(true),
        "false" | "0" | "no" | "off" | "f" | "n" => Ok(false),
        _ => Err(ApiError::bad_request(format!(
            "Invalid {name}: Unrecognized value '{word}', acceptable values are: '0', '1', 'f', \
             'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'"
        ))),
    }
}

/// What a resource is called in the errors of its fields, such as `port`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noun(pub(crate) &'static str);

impl Noun {
    /// 400: the body as a whole is wrong.
    pub(crate) fn schema(self, problem: &str) -> ApiError {
        ApiError::bad_request(format!("Schema error for {}: {problem}", self.0))
    }

    /// 400: a field has a value that it cannot have.
    pub(crate) fn bad(self, field: &str, problem: &str) -> ApiError {
        self.schema(&format!("{field}: {problem}"))
    }

    /// 400: a field has a value of the wrong kind.
    pub(crate) fn mismatch(self, field: &str, expected: &str, value: &Value) -> ApiError {
        let found = body::kind(value);
        self.bad(field, &format!("expected {expected}, found {found}"))
    }

    /// A text of at most `longest` characters without NUL, which databases
    /// cannot keep, or null.
    pub(crate) fn text(self, field: &str, value: Value, longest: usize) -> Result<Option<String>> {
        match value {
            Value::Null => Ok(None),
            Value::String(text) if text.contains('\0') => {
                Err(self.bad(field, "expected no character NUL"))
            }
            Value::String(text) if text.chars().count() <= longest => Ok(Some(text)),
            Value::String(_) => Err(self.bad(field, &format!("longer than {longest} characters"))),
            other => Err(self.mismatch(field, "a string or null", &other)),
        }
    }

    /// A text that must be there.
    pub(crate) fn needed(self, field: &str, value: Value, longest: usize) -> Result<String> {
        match self.text(field, value, longest)? {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(self.bad(field, "must not be empty")),
        }
    }

    /// A boolean, also in the words that command line clients send.
    pub(crate) fn boolean(self, field: &str, value: &Value) -> Result<Option<bool>> {
        match value {
            Value::Null => Ok(None),
            Value::Bool(flag) => Ok(Some(*flag)),
            Value::String(word) => match word.trim().to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" | "t" | "y" => Ok(Some(true)),
                "false" | "0" | "no" | "off" | "f" | "n" => Ok(Some(false)),
                _ => Err(self.bad(field, &format!("expected true or false, found {word:?}"))),
            },
            other => Err(self.mismatch(field, "true or false", other)),
        }
    }

    /// A number that is not negative, also as digits in a text.
    pub(crate) fn number(self, field: &str, value: &Value) -> Result<u32> {
        let number = match value {
            Value::Number(number) => number.as_u64(),
            Value::String(digits) => digits.trim().parse().ok(),
            _ => None,
        };
        number
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(|| {
                let problem = format!("expected a whole number from 0 on, found {value}");
                self.bad(field, &problem)
            })
    }

    /// A UUID or null.
    pub(crate) fn uuid(self, field: &str, value: &Value) -> Result<Option<Uuid>> {
        match value {
            Value::Null => Ok(None),
            Value::String(text) => text
                .parse()
                .map(Some)
                .map_err(|_| ApiError::bad_request(format!("Expected UUID for {field}: {text}"))),
            other => Err(self.mismatch(field, "a UUID or null", other)),
        }
    }

    /// An object; null is an empty one.
    pub(crate) fn object(self, field: &str, value: Value) -> Result<Map<String, Value>> {
        match value {
            Value::Null => Ok(Map::new()),
            Value::Object(object) => Ok(object),
            other => Err(self.mismatch(field, "an object", &other)),
        }
    }
}
