//! JSON Patch (RFC 6902) as far as the API takes it: `add`, `replace`, `remove`
//! on the fields that a resource lets be changed.

use std::collections::BTreeSet;

use serde_json::Map;
use serde_json::Value;

use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::version::since;

/// What is done to one path.
#[derive(Debug, Clone, PartialEq)]
enum Op {
    Add(Value),
    Replace(Value),
    Remove,
}

/// One operation: the path's segments, at least one.
#[derive(Debug, Clone, PartialEq)]
struct Operation {
    path: Vec<String>,
    op: Op,
}

/// A list of operations.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Patch {
    operations: Vec<Operation>,
}

impl Patch {
    /// Reads the operations from a body.
    pub(crate) fn read(body: &Value, context: &Context) -> Result<Self> {
        let Value::Array(items) = body else {
            return Err(ApiError::bad_request(format!(
                "Schema error for patch: expected an array, found {}",
                body::kind(body)
            )));
        };
        let operations = items.iter().map(|item| operation(item, context));
        Ok(Self {
            operations: operations.collect::<Result<_>>()?,
        })
    }

    /// Fields that are touched, each once.
    pub(crate) fn roots(&self) -> BTreeSet<&str> {
        self.operations
            .iter()
            .filter_map(|operation| operation.path.first())
            .map(String::as_str)
            .collect()
    }

    /// Whether the patch does no more than remove one field.
    pub(crate) fn only_removes(&self, field: &str) -> bool {
        matches!(self.operations.as_slice(),
            [Operation { path, op: Op::Remove }] if path.len() == 1 && path.first().is_some_and(|root| root == field))
    }

    /// Applies the operations in order. `document` has every field that may be
    /// changed, as null when it is not set.
    pub(crate) fn apply(&self, document: &mut Map<String, Value>) -> Result<()> {
        for Operation { path, op } in &self.operations {
            let shown = format!("/{}", path.join("/"));
            let Some((root, rest)) = path.split_first() else {
                continue;
            };
            let Some(field) = document.get_mut(root) else {
                return Err(refused(&shown, "the field cannot be changed"));
            };
            match rest.split_last() {
                None => {
                    *field = match op {
                        Op::Add(value) | Op::Replace(value) => value.clone(),
                        Op::Remove => Value::Null,
                    }
                }
                Some((last, parents)) => {
                    change(descend(field, parents, &shown)?, last, op, &shown)?
                }
            }
        }
        Ok(())
    }
}

fn refused(path: &str, reason: &str) -> ApiError {
    ApiError::bad_request(format!(
        "Couldn't apply patch to '{path}'. Reason: {reason}"
    ))
}

fn operation(item: &Value, context: &Context) -> Result<Operation> {
    let schema =
        |problem: &str| ApiError::bad_request(format!("Schema error for patch: {problem}"));
    let object = item
        .as_object()
        .ok_or_else(|| schema("expected an object in the array"))?;
    if let Some(key) = object
        .keys()
        .find(|key| !matches!(key.as_str(), "op" | "path" | "value"))
    {
        return Err(schema(&format!(
            "additional key {key:?}; only op, path and value are allowed"
        )));
    }
    let path = object
        .get("path")
        .and_then(Value::as_str)
        .ok_or_else(|| schema("'path' is required"))?;
    let path = segments(path, context)?;
    let value = || {
        object
            .get("value")
            .cloned()
            .ok_or_else(|| schema("'value' is required for add and replace"))
    };
    let op = match object.get("op").and_then(Value::as_str) {
        Some("add") => Op::Add(value()?),
        Some("replace") => Op::Replace(value()?),
        Some("remove") => Op::Remove,
        Some(other) => {
            return Err(schema(&format!(
                "{other:?} is not one of add, replace, remove"
            )));
        }
        None => return Err(schema("'op' is required")),
    };
    Ok(Operation { path, op })
}

/// Splits a path; segments are words with dashes, from 1.98 also escapes.
fn segments(path: &str, context: &Context) -> Result<Vec<String>> {
    let bad = || {
        ApiError::bad_request(format!(
            "Schema error for patch: {path:?} is not a path of words with dashes, each after a slash"
        ))
    };
    let inner = path.strip_prefix('/').ok_or_else(bad)?;
    let escapes = context.has(since::PATCH_ESCAPES);
    let segment = |text: &str| {
        let decoded = if escapes && text.contains('~') {
            unescape(text)?
        } else {
            text.to_owned()
        };
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let fine = text.chars().all(|c| word(c) || (escapes && c == '~'));
        (fine && !text.is_empty()).then_some(decoded)
    };
    inner
        .split('/')
        .map(|text| segment(text).ok_or_else(bad))
        .collect()
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, character == '~') {
            (_, true) => out.push(match characters.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            }),
            (character, false) => out.push(character),
        }
    }
    Some(out)
}

/// The value below `parents`; a field that is not set is an empty object.
fn descend<'a>(field: &'a mut Value, parents: &[String], shown: &str) -> Result<&'a mut Value> {
    if field.is_null() {
        *field = Value::Object(Map::new());
    }
    let mut here = field;
    for parent in parents {
        let next = match here {
            Value::Object(object) => object.get_mut(parent),
            Value::Array(items) => parent
                .parse::<usize>()
                .ok()
                .and_then(|index| items.get_mut(index)),
            _ => None,
        };
        here = next.ok_or_else(|| refused(shown, &format!("{parent:?} does not exist")))?;
    }
    Ok(here)
}

fn change(target: &mut Value, key: &str, op: &Op, shown: &str) -> Result<()> {
    let missing = || refused(shown, &format!("{key:?} does not exist"));
    match target {
        Value::Object(object) => match op {
            Op::Add(value) => {
                object.insert(key.to_owned(), value.clone());
            }
            Op::Replace(value) => *object.get_mut(key).ok_or_else(missing)? = value.clone(),
            Op::Remove => {
                object.remove(key).ok_or_else(missing)?;
            }
        },
        Value::Array(items) => {
            let end = items.len();
            let index = if key == "-" {
                Some(end)
            } else {
                key.parse().ok()
            };
            let index = index.filter(|index| *index <= end).ok_or_else(missing)?;
            match op {
                Op::Add(value) => items.insert(index, value.clone()),
                Op::Replace(value) => *items.get_mut(index).ok_or_else(missing)? = value.clone(),
                Op::Remove if index < end => {
                    items.remove(index);
                }
                Op::Remove => return Err(missing()),
            }
        }
        other => {
            return Err(refused(
                shown,
                &format!("its parent is {}", body::kind(other)),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;
    use serde_json::json;
    use wrought_wire::microversion::Microversion;

    use super::Patch;
    use crate::context::Context;
    use crate::error::Result;

    fn apply_at(version: u16, patch: Value) -> Result<Value> {
        let context = Context {
            version: Microversion(version),
            base: Arc::from(""),
        };
        let document = json!({"name": null, "extra": {"a": [1, 2], "b/c": 1}, "properties": null});
        let mut document = document.as_object().cloned().unwrap_or_default();
        Patch::read(&patch, &context)?.apply(&mut document)?;
        Ok(Value::Object(document))
    }

    fn apply(patch: Value) -> Result<Value> {
        apply_at(90, patch)
    }

    #[test]
    fn applies_in_order() {
        let done = apply(json!([
            {"op": "add", "path": "/name", "value": "n"},
            {"op": "replace", "path": "/name", "value": "m"},
            {"op": "add", "path": "/properties/cpus", "value": 4},
            {"op": "remove", "path": "/extra/a/0"},
            {"op": "add", "path": "/extra/a/-", "value": 3},
        ]))
        .unwrap();
        assert_eq!(
            done,
            json!({"name": "m", "extra": {"a": [2, 3], "b/c": 1}, "properties": {"cpus": 4}})
        );
        assert_eq!(
            apply(json!([{"op": "remove", "path": "/extra"}])).unwrap()["extra"],
            Value::Null
        );
    }

    #[test]
    fn refuses_with_400() {
        for bad in [
            json!({"name": "x"}),
            json!([{"op": "test", "path": "/name", "value": null}]),
            json!([{"op": "move", "path": "/name", "from": "/extra"}]),
            json!([{"op": "add", "path": "/name"}]),
            json!([{"op": "add", "path": "name", "value": 1}]),
            json!([{"op": "add", "path": "/", "value": 1}]),
            json!([{"op": "add", "path": "/extra/a.b", "value": 1}]),
            json!([{"op": "add", "path": "/extra/b~1c", "value": 1}]),
            json!([{"op": "add", "path": "/uuid", "value": 1}]),
            json!([{"op": "remove", "path": "/extra/zzz"}]),
            json!([{"op": "replace", "path": "/extra/zzz", "value": 1}]),
            json!([{"op": "add", "path": "/extra/a/9", "value": 1}]),
            json!([{"op": "add", "path": "/name/x/y", "value": 1}]),
        ] {
            assert_eq!(apply(bad.clone()).unwrap_err().status(), 400, "{bad}");
        }
    }

    #[test]
    fn escapes_from_1_98() {
        let done = apply_at(
            98,
            json!([{"op": "replace", "path": "/extra/b~1c", "value": 2}]),
        )
        .unwrap();
        assert_eq!(done["extra"]["b/c"], 2);
    }
}
