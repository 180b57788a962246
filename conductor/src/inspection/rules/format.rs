//! Format strings: `{inventory[cpu][count]}`, `{plugin_data[x]}`,
//! `{node.driver}`, `{item}`, with `{{` and `}}` for braces.
//!
//! A text with a field that names nothing is left as it is written, as Ironic
//! does. Values become text in Python's words (`True`, `None`), which the
//! rules in use expect.

use std::fmt::Write;

use serde_json::Map;
use serde_json::Value;
use wrought_wire::mask;
use wrought_wire::secret::MASK;

use super::Budget;
use super::Stop;
use super::Subject;

/// Longest text that formatting may make, in bytes.
const LONGEST: usize = 64 << 10;

/// What fields can name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    node: &'a Map<String, Value>,
    inventory: &'a Map<String, Value>,
    plugin_data: &'a Map<String, Value>,
    item: Option<&'a Value>,
}

/// A piece of a format string.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'t> {
    Text(&'t str),
    /// A field: its root, then what is looked up in it.
    Field(&'t str, Vec<&'t str>),
}

impl<'a> Context<'a> {
    /// Outside of a loop.
    pub(super) fn of(subject: &'a Subject) -> Self {
        Self {
            node: &subject.node,
            inventory: &subject.inventory,
            plugin_data: &subject.plugin_data,
            item: None,
        }
    }

    /// The same for one item of a loop.
    pub(super) fn with(self, item: Option<&'a Value>) -> Self {
        Self { item, ..self }
    }

    /// The value that a field names, secrets of the node masked.
    fn find(&self, root: &str, keys: &[&str]) -> Option<Value> {
        if root == "node" {
            let secret = keys.iter().any(|key| mask::is_secret(key));
            let found = dig(self.node.get(*keys.first()?)?, keys.get(1..)?)?;
            return Some(match secret {
                true => Value::from(MASK),
                false => mask::masked_value(found),
            });
        }
        if root == "item" {
            return dig(self.item?, keys).cloned();
        }
        let object = match root {
            "inventory" => self.inventory,
            "plugin_data" => self.plugin_data,
            _ => return None,
        };
        match keys.split_first() {
            Some((key, rest)) => dig(object.get(*key)?, rest).cloned(),
            None => Some(Value::Object(object.clone())),
        }
    }

    /// A value for a condition: a text that is one field and nothing else is
    /// what the field names, of its own kind; null where it names nothing.
    pub(super) fn operand(&self, value: &Value, budget: &mut Budget) -> Result<Value, Stop> {
        match value {
            Value::String(text) => match pieces(text).as_deref() {
                Some([Piece::Field(root, keys)]) if is_root(root) => {
                    let found = self.find(root, keys).unwrap_or_default();
                    budget.spend(weight(&found))?;
                    Ok(found)
                }
                _ => Ok(Value::String(self.text(text, budget)?)),
            },
            Value::Array(items) => {
                budget.spend(items.len())?;
                let items = items.iter().map(|item| self.operand(item, budget));
                Ok(Value::Array(items.collect::<Result<_, _>>()?))
            }
            other => self.value(other, budget),
        }
    }

    /// A value for an action: every text in it formatted, however deep.
    pub(super) fn value(&self, value: &Value, budget: &mut Budget) -> Result<Value, Stop> {
        budget.spend(8)?;
        Ok(match value {
            Value::String(text) => Value::String(self.text(text, budget)?),
            Value::Array(items) => {
                let items = items.iter().map(|item| self.value(item, budget));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Value::Object(object) => {
                let mut made = Map::new();
                for (key, value) in object {
                    budget.spend(key.len())?;
                    made.insert(key.clone(), self.value(value, budget)?);
                }
                Value::Object(made)
            }
            other => other.clone(),
        })
    }

    /// A formatted text.
    pub(super) fn text(&self, text: &str, budget: &mut Budget) -> Result<String, Stop> {
        let made = match pieces(text) {
            Some(pieces) => self.join(&pieces)?,
            None => None,
        };
        let made = made.unwrap_or_else(|| text.to_owned());
        budget.spend(made.len())?;
        Ok(made)
    }

    /// None when a field names nothing.
    fn join(&self, pieces: &[Piece<'_>]) -> Result<Option<String>, Stop> {
        let mut out = Bounded::default();
        for piece in pieces {
            let written = match piece {
                Piece::Text(text) => out.write_str(text),
                Piece::Field(root, keys) => match self.find(root, keys) {
                    Some(value) => write_value(&mut out, &value),
                    None => return Ok(None),
                },
            };
            if written.is_err() {
                return Err(Stop::problem(format!(
                    "a formatted text is longer than {LONGEST} bytes"
                )));
            }
        }
        Ok(Some(out.0))
    }
}

fn is_root(name: &str) -> bool {
    matches!(name, "node" | "inventory" | "plugin_data" | "item")
}

fn dig<'v>(value: &'v Value, keys: &[&str]) -> Option<&'v Value> {
    keys.iter().try_fold(value, |value, key| match value {
        Value::Object(object) => object.get(*key),
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Bytes that a value takes, roughly.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 8,
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + 8,
        Value::Object(object) => {
            let entry = |(key, value): (&String, &Value)| key.len() + weight(value);
            object.iter().map(entry).sum::<usize>() + 8
        }
        _ => 8,
    }
}

/// A value as text, for comparisons and texts alike; none when it is too long.
pub(super) fn plain(value: &Value) -> Option<String> {
    let mut out = Bounded::default();
    write_value(&mut out, value).ok()?;
    Some(out.0)
}

fn write_value(out: &mut Bounded, value: &Value) -> std::fmt::Result {
    match value {
        Value::Null => out.write_str("None"),
        Value::Bool(true) => out.write_str("True"),
        Value::Bool(false) => out.write_str("False"),
        Value::String(text) => out.write_str(text),
        other => write!(out, "{other}"),
    }
}

/// A text that refuses to become too long.
#[derive(Debug, Default)]
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Takes a format string apart; none when it is not one.
fn pieces(text: &str) -> Option<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        if from.starts_with("{{") || from.starts_with("}}") {
            let (brace, after) = (from.get(..1)?, from.get(2..)?);
            pieces.push(Piece::Text(brace));
            rest = after;
            continue;
        }
        let (inside, after) = from.strip_prefix('{')?.split_once('}')?;
        pieces.push(field(inside)?);
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Some(pieces)
}

/// `name`, then any number of `.attribute` and `[key]`.
fn field(text: &str) -> Option<Piece<'_>> {
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (root, mut rest) = text.split_at(end);
    let mut keys = Vec::new();
    while !rest.is_empty() {
        let key = if let Some(inside) = rest.strip_prefix('[') {
            let (key, after) = inside.split_once(']')?;
            rest = after;
            key
        } else {
            let inside = rest.strip_prefix('.')?;
            let end = inside.find(['.', '[']).unwrap_or(inside.len());
            let (key, after) = inside.split_at(end);
            rest = after;
            key
        };
        if key.is_empty() {
            return None;
        }
        keys.push(key);
    }
    // Conversions and format specifications are not offered.
    let plain = root.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (plain && !root.is_empty()).then_some(Piece::Field(root, keys))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::Context;
    use crate::inspection::rules::Budget;
    use crate::inspection::rules::Subject;

    fn object(value: &Value) -> serde_json::Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn subject() -> Subject {
        Subject {
            node: object(&json!({"driver": "redfish", "name": null,
                "driver_info": {"redfish_password": "hunter2", "redfish_address": "https://u:hunter3@h"},
                "driver_internal_info": {"agent_secret_token": "hunter4"}})),
            inventory: object(&json!({"cpu": {"count": 4}, "interfaces": [{"name": "eth0",
                "has_carrier": true}], "bmc_address": "192.0.2.1"})),
            plugin_data: object(&json!({"a b": {"x": "y"}, "none": null})),
            ports: Vec::new(),
        }
    }

    fn text(format: &str) -> String {
        let subject = subject();
        let item = json!({"k": [1, "two"]});
        let context = Context::of(&subject).with(Some(&item));
        context.text(format, &mut Budget::default()).unwrap()
    }

    #[test]
    fn fields_braces_and_what_is_left_alone() {
        for (format, expected) in [
            ("{node.driver} {inventory[cpu][count]}", "redfish 4"),
            ("{inventory[interfaces][0][name]}", "eth0"),
            (
                "{inventory[interfaces][0][has_carrier]} {node.name}",
                "True None",
            ),
            ("{plugin_data[a b][x]} {plugin_data[none]}", "y None"),
            ("{item[k][1]} {item[k]}", "two [1,\"two\"]"),
            ("{{node.driver}} }}{{", "{node.driver} }{"),
            // Not fields, or fields of nothing: left as they are.
            (
                "{inventory[cpu][frequency]} {node.driver}",
                "{inventory[cpu][frequency]} {node.driver}",
            ),
            ("{nothing}", "{nothing}"),
            ("{", "{"),
            ("a } b", "a } b"),
            ("{node}", "{node}"),
            ("{node.driver!r}", "{node.driver!r}"),
            ("{inventory[cpu}", "{inventory[cpu}"),
            ("{}", "{}"),
        ] {
            assert_eq!(text(format), expected, "{format}");
        }
    }

    #[test]
    fn secrets_of_the_node_never_come_out() {
        for format in [
            "{node.driver_info}",
            "{node.driver_info[redfish_password]}",
            "{node.driver_info[redfish_address]}",
            "{node.driver_internal_info[agent_secret_token]}",
            "{node.driver_internal_info.agent_secret_token}",
        ] {
            let made = text(format);
            assert!(
                !made.contains("hunter") && made.contains("******"),
                "{format}: {made}"
            );
        }
    }

    #[test]
    fn operands_keep_their_kind() {
        let subject = subject();
        let context = Context::of(&subject);
        let mut budget = Budget::default();
        let mut of = |value: Value| context.operand(&value, &mut budget).unwrap();
        assert_eq!(of(json!("{inventory[cpu][count]}")), json!(4));
        assert_eq!(of(json!("{inventory[cpu][frequency]}")), Value::Null);
        assert_eq!(of(json!("n {inventory[cpu][count]}")), json!("n 4"));
        assert_eq!(of(json!(["{node.driver}", 1])), json!(["redfish", 1]));
        assert_eq!(of(json!("{item}")), Value::Null);
        assert_eq!(of(json!("{other}")), json!("{other}"));
    }

    #[test]
    fn long_texts_end_it() {
        let mut subject = subject();
        subject
            .plugin_data
            .insert("x".to_owned(), json!("y".repeat(40_000)));
        let context = Context::of(&subject);
        let mut budget = Budget::default();
        assert!(context.text("{plugin_data[x]}", &mut budget).is_ok());
        assert!(
            context
                .text("{plugin_data[x]}{plugin_data[x]}", &mut budget)
                .is_err()
        );
        for _ in 0..500 {
            if context.text("{plugin_data[x]}", &mut budget).is_err() {
                return;
            }
        }
        panic!("the budget has no end");
    }
}
