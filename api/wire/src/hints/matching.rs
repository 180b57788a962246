//! Whether a disk is what the hints mean.

use serde_json::Map;
use serde_json::Value;

use crate::hints::Expression;
use crate::hints::Hint;
use crate::hints::Hints;
use crate::hints::Key;
use crate::hints::NumberOp;
use crate::hints::TextOp;
use crate::hints::expression::normalise;

const GIB: u64 = 1 << 30;

/// A disk as hints see it.
pub trait Candidate {
    /// Its size in bytes.
    fn bytes(&self) -> u64;
    /// Whether it turns; none where nobody knows.
    fn rotational(&self) -> Option<bool>;
    /// Its values of a key that is a text; one that matches is enough.
    fn values(&self, key: Key) -> Vec<String>;
    /// Whether `name`, as it was written in a hint, leads to it by other ways
    /// than its values.
    fn is_called(&self, _name: &str) -> bool {
        false
    }
}

/// A disk of an inventory. Values may be lists there.
impl Candidate for Map<String, Value> {
    fn bytes(&self) -> u64 {
        self.get("size").and_then(Value::as_u64).unwrap_or(0)
    }

    fn rotational(&self) -> Option<bool> {
        self.get("rotational")?.as_bool()
    }

    fn values(&self, key: Key) -> Vec<String> {
        let texts = |name: &str| match self.get(name) {
            Some(Value::String(text)) => vec![text.clone()],
            Some(Value::Array(list)) => list
                .iter()
                .filter_map(|value| value.as_str().map(str::to_owned))
                .collect(),
            _ => Vec::new(),
        };
        let mut values = texts(key.name());
        if key == Key::Wwn {
            values.extend(texts(Key::WwnWithExtension.name()));
        }
        values
    }
}

impl Hints {
    /// Whether all hints hold for the disk.
    pub fn matches<C: Candidate + ?Sized>(&self, disk: &C) -> bool {
        self.0.iter().all(|hint| hint.matches(disk))
    }
}

impl Hint {
    /// Whether this hint holds. Where a disk has several values, one is
    /// enough.
    pub fn matches<C: Candidate + ?Sized>(&self, disk: &C) -> bool {
        if let (Key::Rotational, Expression::Flag(wanted)) = (self.key, &self.expression) {
            return disk.rotational() == Some(*wanted);
        }
        if self.key == Key::Size {
            return size_matches(&self.expression, disk.bytes());
        }
        let mut values = disk.values(self.key);
        if self.key == Key::Name {
            let written = self.written.trim_start_matches("s==").trim();
            if disk.is_called(written) {
                values.push(self.written.clone());
            }
        }
        values
            .iter()
            .any(|value| text_matches(&self.expression, &normalise(value)))
    }
}

/// Sizes are compared as fractions of a GiB, as Ironic does: `100` is
/// exactly 100 GiB.
fn size_matches(expression: &Expression, bytes: u64) -> bool {
    // Exact up to 2^53 bytes, and a rounding error beyond does not matter.
    let gib = bytes as f64 / GIB as f64;
    match expression {
        Expression::Or(choices) => choices
            .iter()
            .any(|choice| choice.parse::<f64>().is_ok_and(|wanted| wanted == gib)),
        other => number_matches(other, gib),
    }
}

fn number_matches(expression: &Expression, value: f64) -> bool {
    match expression {
        Expression::Number(op, wanted) => match op {
            NumberOp::Equal => value == *wanted,
            NumberOp::NotEqual => value != *wanted,
            NumberOp::AtLeast => value >= *wanted,
            NumberOp::AtMost => value <= *wanted,
            NumberOp::Above => value > *wanted,
            NumberOp::Below => value < *wanted,
        },
        Expression::Range {
            low,
            with_low,
            high,
            with_high,
        } => {
            let above = if *with_low {
                value >= *low
            } else {
                value > *low
            };
            let below = if *with_high {
                value <= *high
            } else {
                value < *high
            };
            above && below
        }
        _ => false,
    }
}

fn text_matches(expression: &Expression, value: &str) -> bool {
    match expression {
        Expression::Text(op, wanted) => {
            let wanted = wanted.as_str();
            match op {
                TextOp::Equal => value == wanted,
                TextOp::NotEqual => value != wanted,
                TextOp::AtLeast => value >= wanted,
                TextOp::AtMost => value <= wanted,
                TextOp::Above => value > wanted,
                TextOp::Below => value < wanted,
            }
        }
        Expression::In(part) => value.contains(part.as_str()),
        Expression::AllIn(words) => words.iter().all(|word| value.contains(word.as_str())),
        Expression::Or(choices) => choices.iter().any(|choice| choice == value),
        Expression::Number(..) | Expression::Range { .. } => value
            .parse()
            .is_ok_and(|value| number_matches(expression, value)),
        Expression::Flag(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use crate::hints::parse;

    #[test]
    fn disks_of_an_inventory() {
        let disk = json!({"name": "/dev/sda", "size": 107_374_182_400_u64, "rotational": true,
            "serial": ["A", "B"], "wwn": "0x5", "wwn_with_extension": "0x56", "model": null});
        let Value::Object(disk) = disk else {
            panic!("no object")
        };
        for (hints, expected) in [
            (json!({"size": 100, "rotational": true}), true),
            (json!({"size": "> 100"}), false),
            (json!({"serial": "b", "name": "/dev/sda"}), true),
            (json!({"wwn": "0x56"}), true),
            (json!({"model": "s!= x"}), false),
            (json!({"rotational": false}), false),
        ] {
            assert_eq!(parse(&hints).unwrap().matches(&disk), expected, "{hints}");
        }
    }
}
