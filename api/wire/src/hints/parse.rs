//! From a JSON object to hints.

use serde_json::Map;
use serde_json::Value;

use crate::hints::Expression;
use crate::hints::Hint;
use crate::hints::Hints;
use crate::hints::KEYS;
use crate::hints::Key;
use crate::hints::NumberOp;
use crate::hints::TextOp;
use crate::hints::expression;

/// A hint that cannot be used. A hint is never left out in silence: the disk
/// that would be written then may be the wrong one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HintError {
    /// The key is not one of ours.
    #[error("root device hint '{key}' is not known; there are {}", known())]
    UnknownKey {
        /// As it was written.
        key: String,
    },
    /// The value cannot be used.
    #[error("root device hint {key}: {reason}")]
    BadValue {
        /// Which hint.
        key: &'static str,
        /// Expected and found.
        reason: String,
    },
    /// The whole is not an object.
    #[error("root device hints are an object of keys and expressions, found {found}")]
    NotAnObject {
        /// Kind of the value.
        found: String,
    },
}

fn known() -> String {
    KEYS.map(|(name, _)| name).join(", ")
}

/// Reads hints. An empty object gives no hints.
pub fn parse(value: &Value) -> Result<Hints, HintError> {
    let Value::Object(object) = value else {
        return Err(HintError::NotAnObject {
            found: value.to_string(),
        });
    };
    parse_object(object)
}

pub(crate) fn parse_object(object: &Map<String, Value>) -> Result<Hints, HintError> {
    object
        .iter()
        .map(|(name, value)| parse_one(name, value))
        .collect::<Result<_, _>>()
        .map(Hints)
}

fn parse_one(name: &str, value: &Value) -> Result<Hint, HintError> {
    let key = KEYS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, key)| *key);
    let key = key.ok_or_else(|| HintError::UnknownKey {
        key: name.to_owned(),
    })?;
    let expression = match key {
        Key::Size => size(value),
        Key::Rotational => rotational(value),
        _ => text(value),
    };
    let expression = expression.map_err(|reason| HintError::BadValue {
        key: key.name(),
        reason,
    })?;
    let written = match value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    Ok(Hint {
        key,
        expression,
        written,
    })
}

fn size(value: &Value) -> Result<Expression, String> {
    let wrong =
        || format!("a size in GiB above 0 is expected, as in 100 or '>= 100', found {value}");
    let expression = match value {
        Value::Number(number) => {
            Expression::Number(NumberOp::Equal, number.as_f64().ok_or_else(wrong)?)
        }
        Value::String(text) => match Expression::with_operator(text)? {
            Some(expression) => expression,
            None => Expression::Number(
                NumberOp::Equal,
                expression::number(text).map_err(|_| wrong())?,
            ),
        },
        _ => return Err(wrong()),
    };
    match &expression {
        Expression::Number(_, number) if *number > 0.0 => Ok(expression),
        Expression::Range { low, high, .. } if *low >= 0.0 && low <= high => Ok(expression),
        Expression::Or(choices) => {
            for choice in choices {
                expression::number(choice)?;
            }
            Ok(expression)
        }
        _ => Err(wrong()),
    }
}

fn rotational(value: &Value) -> Result<Expression, String> {
    let truth = match value {
        Value::Bool(truth) => Some(*truth),
        Value::Number(number) => match number.as_u64() {
            Some(0) => Some(false),
            Some(1) => Some(true),
            _ => None,
        },
        Value::String(text) => match text.trim().to_lowercase().as_str() {
            "true" | "yes" | "y" | "on" | "t" | "1" => Some(true),
            "false" | "no" | "n" | "off" | "f" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    };
    truth
        .map(Expression::Flag)
        .ok_or_else(|| format!("true or false is expected, found {value}"))
}

fn text(value: &Value) -> Result<Expression, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(format!("a text is expected, found {value}")),
    };
    if text.trim().is_empty() {
        return Err("the text is empty".to_owned());
    }
    let with_operator = Expression::with_operator(&text)?;
    Ok(with_operator
        .unwrap_or_else(|| Expression::Text(TextOp::Equal, expression::normalise(&text))))
}

#[cfg(test)]
mod tests {
    use super::HintError;
    use super::parse;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn bad_hints_say_why() {
        let cases = [
            (
                json!({"sise": 1}),
                "root device hint 'sise' is not known; there are size, model",
            ),
            (
                json!({"size": 0}),
                "root device hint size: a size in GiB above 0 is expected",
            ),
            (json!({"size": "big"}), "found \"big\""),
            (
                json!({"size": ">= big"}),
                "a number is expected, found 'big'",
            ),
            (
                json!({"size": "<range-in> 10 20"}),
                "a range is written <range-in> [ 10 20 ]",
            ),
            (
                json!({"model": ""}),
                "root device hint model: the text is empty",
            ),
            (
                json!({"model": "<in>"}),
                "nothing follows the operator <in>",
            ),
            (json!({"model": "<inn> x"}), "operator <inn> is not known"),
            (
                json!({"serial": ["a"]}),
                "a text is expected, found [\"a\"]",
            ),
            (
                json!({"rotational": "maybe"}),
                "true or false is expected, found \"maybe\"",
            ),
            (
                json!("sda"),
                "an object of keys and expressions, found \"sda\"",
            ),
        ];
        for (hints, expected) in cases {
            let error: HintError = parse(&hints).unwrap_err();
            assert!(error.to_string().contains(expected), "{hints}: {error}");
        }
    }

    #[test]
    fn an_empty_object_gives_none() {
        assert!(parse(&json!({})).unwrap().0.is_empty());
    }

    proptest! {
        #[test]
        fn never_panics(text in "[<>=!s\\[\\]() a-z0-9.-]{0,40}") {
            let disk = json!({"size": 1 << 30, "model": text, "rotational": true});
            let disk = disk.as_object().unwrap();
            for key in ["size", "model", "rotational"] {
                if let Ok(hints) = parse(&json!({ key: text })) {
                    hints.matches(disk);
                }
            }
        }
    }
}
