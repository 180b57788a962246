//! Conditions. A field that names nothing is null here, so that a rule for one
//! kind of machine simply does not apply to another.

use std::cmp::Ordering;
use std::net::IpAddr;

use regex::Regex;
use regex::RegexBuilder;
use serde_json::Value;
use wrought_wire::inspection::Condition;
use wrought_wire::inspection::ConditionOp as Op;
use wrought_wire::inspection::Multiple;

use super::Budget;
use super::Stop;
use super::format::Context;
use super::format::plain;

/// Bytes that a compiled regular expression may take.
const REGEX: usize = 1 << 20;

/// A condition made ready.
pub(super) struct Test {
    condition: Condition,
    regex: Option<Regex>,
}

impl Test {
    /// Compiles the regular expression, which is never formatted.
    pub(super) fn new(condition: Condition) -> Result<Self, String> {
        let regex = match condition.op {
            Op::Matches | Op::Contains => {
                let Some(Value::String(text)) = condition.args.get("regex") else {
                    return Err("Schema error: regex is not of type 'string'".to_owned());
                };
                let whole = match condition.op {
                    Op::Matches => format!(r"\A(?:{text})\z"),
                    _ => text.clone(),
                };
                // Alone first: an unbalanced bracket must not find its partner
                // in what is put around it.
                let built = compile(text).and_then(|_| compile(&whole));
                Some(built.map_err(|error| format!("the regex cannot be used: {error}"))?)
            }
            _ => None,
        };
        Ok(Self { condition, regex })
    }

    /// Whether it holds, over all items of its loop.
    pub(super) fn holds(&self, context: &Context<'_>, budget: &mut Budget) -> Result<bool, Stop> {
        let Some(items) = &self.condition.items else {
            return self.once(context, budget);
        };
        let mut result = false;
        for item in items {
            let item = context.operand(item, budget)?;
            result = self.once(&context.with(Some(&item)), budget)?;
            match (self.condition.multiple, result) {
                (Multiple::Any, true) | (Multiple::All, false) | (Multiple::First, _) => {
                    return Ok(result);
                }
                _ => {}
            }
        }
        Ok(result)
    }

    fn once(&self, context: &Context<'_>, budget: &mut Budget) -> Result<bool, Stop> {
        budget.step()?;
        let holds = self.test(context, budget)?;
        Ok(holds != self.condition.negated)
    }

    fn test(&self, context: &Context<'_>, budget: &mut Budget) -> Result<bool, Stop> {
        let mut operand = |name: &str| match self.condition.args.get(name) {
            Some(value) => context.operand(value, budget),
            None => Ok(Value::Null),
        };
        Ok(match self.condition.op {
            Op::Eq | Op::Lt | Op::Gt => {
                let values = list(operand("values")?, "values")?;
                let strings = is_true(&operand("force_strings")?);
                let pair = |pair: &[Value]| match pair {
                    [a, b] => compare(self.condition.op, a, b, strings),
                    _ => true,
                };
                values.windows(2).all(pair)
            }
            Op::IsEmpty => is_empty(&operand("value")?),
            Op::IsNone => operand("value")?.is_null(),
            Op::IsTrue => is_true(&operand("value")?),
            Op::IsFalse => is_false(&operand("value")?),
            Op::InNet => {
                let (address, subnet) = (operand("address")?, operand("subnet")?);
                in_net(&address, &subnet)?
            }
            Op::OneOf => {
                let value = operand("value")?;
                let values = list(operand("values")?, "values")?;
                values.iter().any(|other| same(&value, other))
            }
            Op::Matches | Op::Contains => {
                let value = operand("value")?;
                let text = match value {
                    Value::Null => return Ok(false),
                    value => plain(&value),
                };
                // A text beyond all bounds matches nothing.
                let regex = self.regex.as_ref();
                regex
                    .zip(text)
                    .is_some_and(|(regex, text)| regex.is_match(&text))
            }
        })
    }
}

fn compile(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text)
        .size_limit(REGEX)
        .dfa_size_limit(REGEX)
        .build()
}

fn list(value: Value, name: &str) -> Result<Vec<Value>, Stop> {
    match value {
        Value::Array(items) => Ok(items),
        Value::Null => Ok(Vec::new()),
        _ => Err(Stop::problem(format!("{name} is no list"))),
    }
}

fn compare(op: Op, a: &Value, b: &Value, strings: bool) -> bool {
    if op == Op::Eq {
        return match strings {
            true => plain(a) == plain(b),
            false => same(a, b),
        };
    }
    let order = match (number(a), number(b)) {
        (Some(a), Some(b)) if !strings => a.partial_cmp(&b),
        _ => match (a, b) {
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            _ if strings => plain(a).zip(plain(b)).map(|(a, b)| a.cmp(&b)),
            // A text and a number have no order.
            _ => None,
        },
    };
    order
        == Some(if op == Op::Lt {
            Ordering::Less
        } else {
            Ordering::Greater
        })
}

/// Equal, or one the text of the other: what a format string made is a text,
/// what a rule says may be a number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Value::String(_), Value::String(_)) => a == b,
        (Value::String(_), Value::Number(_)) | (Value::Number(_), Value::String(_)) => {
            number(a).is_some() && number(a) == number(b)
        }
        (Value::String(_), _) | (_, Value::String(_)) if !a.is_null() && !b.is_null() => {
            plain(a) == plain(b)
        }
        _ => a == b,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text
            .trim()
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite()),
        _ => None,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty(),
        _ => false,
    }
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => *flag,
        Value::Number(_) => number(value) != Some(0.0),
        Value::String(text) => ["yes", "true"].contains(&text.to_ascii_lowercase().as_str()),
        _ => false,
    }
}

fn is_false(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !*flag,
        Value::Number(_) => number(value) == Some(0.0),
        Value::String(text) => ["no", "false"].contains(&text.to_ascii_lowercase().as_str()),
        _ => false,
    }
}

/// Whether an address is in a network; what is no address is in none.
fn in_net(address: &Value, subnet: &Value) -> Result<bool, Stop> {
    let bad = || {
        Stop::problem(format!(
            "{} is no network such as 192.0.2.0/24",
            excerpt(subnet)
        ))
    };
    let text = subnet.as_str().ok_or_else(bad)?;
    let (net, prefix) = text
        .split_once('/')
        .map_or((text, None), |(net, p)| (net, Some(p)));
    let net: IpAddr = net.parse().map_err(|_| bad())?;
    let width: u32 = if net.is_ipv4() { 32 } else { 128 };
    let prefix = match prefix {
        Some(prefix) => prefix
            .parse()
            .ok()
            .filter(|p| *p <= width)
            .ok_or_else(bad)?,
        None => width,
    };
    let Some(Ok(address)) = address.as_str().map(str::parse::<IpAddr>) else {
        return Ok(false);
    };
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    };
    // Of a prefix of 0, nothing is compared.
    let host = width - prefix;
    let same = |a: u128, b: u128| a.checked_shr(host) == b.checked_shr(host);
    Ok(address.is_ipv4() == net.is_ipv4() && same(bits(address), bits(net)))
}

fn excerpt(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;
    use wrought_wire::inspection::Condition;

    use super::Test;
    use crate::inspection::rules::Budget;
    use crate::inspection::rules::Subject;
    use crate::inspection::rules::format::Context;

    fn holds(condition: Value) -> bool {
        let inventory = json!({"cpu": {"count": 16, "architecture": "x86_64"}, "disks": [],
            "bmc_address": "192.0.2.77", "system_vendor": {"manufacturer": "Dell Inc."}});
        let subject = Subject {
            inventory: inventory.as_object().unwrap().clone(),
            ..Subject::default()
        };
        let test = Test::new(Condition::read(&condition).unwrap()).unwrap();
        test.holds(&Context::of(&subject), &mut Budget::default())
            .unwrap()
    }

    #[test]
    fn every_operation_and_its_opposite() {
        for (op, args, expected) in [
            (
                "eq",
                json!({"values": ["{inventory[cpu][count]}", 16]}),
                true,
            ),
            (
                "eq",
                json!({"values": ["{inventory[cpu][count]}", "16", 16.0]}),
                true,
            ),
            (
                "eq",
                json!({"values": ["{inventory[cpu][none]}", "None"]}),
                false,
            ),
            (
                "eq",
                json!({"values": [1, "1"], "force_strings": true}),
                true,
            ),
            ("eq", json!({"values": [[1], [1]]}), true),
            ("eq", json!({"values": []}), true),
            (
                "lt",
                json!({"values": ["4", "{inventory[cpu][count]}", 100]}),
                true,
            ),
            (
                "lt",
                json!({"values": ["4", "16"], "force_strings": true}),
                false,
            ),
            ("lt", json!({"values": [1, 1]}), false),
            ("lt", json!({"values": ["a", 1]}), false),
            ("gt", json!({"values": [3, 2, 1]}), true),
            ("gt", json!({"values": ["b", "a"]}), true),
            ("is-empty", json!({"value": "{inventory[disks]}"}), true),
            ("is-empty", json!({"value": "{inventory[cpu]}"}), false),
            ("is-empty", json!({"value": "{inventory[none]}"}), true),
            ("is-empty", json!({"value": 0}), false),
            (
                "in-net",
                json!({"address": "{inventory[bmc_address]}", "subnet": "192.0.2.0/24"}),
                true,
            ),
            (
                "in-net",
                json!({"address": "192.0.2.1", "subnet": "192.0.2.2"}),
                false,
            ),
            (
                "in-net",
                json!({"address": "::1", "subnet": "0.0.0.0/0"}),
                false,
            ),
            (
                "in-net",
                json!({"address": "2001:db8::1", "subnet": "::/0"}),
                true,
            ),
            ("in-net", json!({"address": "x", "subnet": "::/0"}), false),
            (
                "matches",
                json!({"value": "{inventory[cpu][architecture]}", "regex": "x86_.."}),
                true,
            ),
            (
                "matches",
                json!({"value": "x86_64", "regex": "x86|y"}),
                false,
            ),
            (
                "contains",
                json!({"value": "{inventory[system_vendor][manufacturer]}", "regex": "(?i)dell"}),
                true,
            ),
            ("contains", json!({"value": 1234, "regex": "23"}), true),
            ("contains", json!({"value": null, "regex": ""}), false),
            (
                "one-of",
                json!({"value": "{inventory[cpu][count]}", "values": [8, 16]}),
                true,
            ),
            ("one-of", json!({"value": null, "values": []}), false),
            ("is-none", json!({"value": "{inventory[none]}"}), true),
            ("is-none", json!({"value": "None"}), false),
            ("is-true", json!({"value": "Yes"}), true),
            ("is-true", json!({"value": 0.0}), false),
            ("is-false", json!({"value": null}), true),
            ("is-false", json!({"value": "maybe"}), false),
        ] {
            for prefix in ["", "!", "! "] {
                let condition = json!({"op": format!("{prefix}{op}"), "args": args});
                assert_eq!(
                    holds(condition.clone()),
                    expected == prefix.is_empty(),
                    "{condition}"
                );
            }
        }
    }

    #[test]
    fn loops_become_one_result() {
        for (multiple, items, expected) in [
            ("any", json!([1, 16, 2]), true),
            ("any", json!([1, 2]), false),
            ("all", json!([16, "16"]), true),
            ("all", json!([16, 1]), false),
            ("first", json!([16, 1]), true),
            ("first", json!([1, 16]), false),
            ("last", json!([1, 16]), true),
            ("last", json!([16, 1]), false),
            ("any", json!([]), false),
        ] {
            let condition = json!({"op": "eq", "args": {"values": ["{inventory[cpu][count]}", "{item}"]},
                "loop": items, "multiple": multiple});
            assert_eq!(holds(condition), expected, "{multiple} {items}");
        }
    }

    #[test]
    fn what_cannot_be_tested_is_told() {
        for regex in ["(", "x)|(y", "a{1000}{1000}", "(?=x)"] {
            let args = json!({"value": "x", "regex": regex});
            let condition = Condition::read(&json!({"op": "matches", "args": args})).unwrap();
            assert!(Test::new(condition).is_err(), "{regex}");
        }
        for net in [
            json!("x/8"),
            json!("192.0.2.0/33"),
            json!(1),
            json!("::/-1"),
        ] {
            assert!(super::in_net(&json!("192.0.2.1"), &net).is_err(), "{net}");
        }
    }
}
