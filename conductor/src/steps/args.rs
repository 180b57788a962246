//! The arguments of steps against what the steps say they take (`argsinfo`).

use serde_json::Map;
use serde_json::Value;
use wrought_wire::step::Step;

use crate::error::Error;
use crate::steps::Kind;
use crate::steps::name;

/// Checks the arguments of `step` by `argsinfo`: for each argument an object
/// with `description`, `required` and, where the step is ours or a plug-in's,
/// `type` (a JSON type, or `integer`). A step without it takes none.
pub(crate) fn check(kind: Kind, step: &Step, argsinfo: Option<&Value>) -> Result<(), Error> {
    let none = Map::new();
    let known = argsinfo.and_then(Value::as_object).unwrap_or(&none);
    let refuse = |problem: String| {
        Err(Error::Invalid(format!(
            "{} step {}: {problem}",
            kind.as_str(),
            name(step)
        )))
    };
    if let Some(odd) = step.args.keys().find(|key| !known.contains_key(*key)) {
        return refuse(format!(
            "unknown argument {odd:?}, the step takes {}",
            names(known)
        ));
    }
    for (key, info) in known {
        let given = step.args.get(key).filter(|given| !given.is_null());
        let required = info.get("required").and_then(Value::as_bool) == Some(true);
        match given {
            None if required => {
                let what = info.get("description").and_then(Value::as_str);
                return refuse(format!(
                    "required argument {key:?} is missing ({})",
                    what.unwrap_or("not described")
                ));
            }
            None => {}
            Some(given) => {
                let wanted = info.get("type").and_then(Value::as_str);
                if let Some(wanted) = wanted.filter(|wanted| !is(given, wanted)) {
                    return refuse(format!(
                        "argument {key:?}: expected {wanted}, found {}",
                        type_of(given)
                    ));
                }
            }
        }
    }
    Ok(())
}

/// The names that `type` may have.
pub(crate) const TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "array", "object"];

fn is(value: &Value, wanted: &str) -> bool {
    match wanted {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        // What a hardware manager calls otherwise is its own business.
        _ => true,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn names(known: &Map<String, Value>) -> String {
    if known.is_empty() {
        return "none".to_owned();
    }
    let mut names: Vec<&str> = known.keys().map(String::as_str).collect();
    names.sort_unstable();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::check;
    use crate::steps::Kind;
    use crate::steps::list::lenient;

    #[test]
    fn arguments_are_checked_by_argsinfo() {
        let info = json!({
            "level": {"description": "RAID level", "required": true, "type": "string"},
            "disks": {"description": "How many", "required": false, "type": "integer"},
            "free": {"description": "Of any type"},
        });
        let run = |args| {
            let step = json!({"interface": "raid", "step": "build", "args": args});
            check(Kind::Clean, &lenient(&step).unwrap(), Some(&info))
        };
        run(json!({"level": "1"})).unwrap();
        run(json!({"level": "1", "disks": 2, "free": [1]})).unwrap();
        run(json!({"level": "1", "disks": null})).unwrap();
        for (args, says) in [
            (
                json!({"level": "1", "colour": "red"}),
                "clean step raid.build: unknown argument \"colour\", the step takes disks, free, level",
            ),
            (
                json!({"disks": 2}),
                "clean step raid.build: required argument \"level\" is missing (RAID level)",
            ),
            (
                json!({"level": 1}),
                "clean step raid.build: argument \"level\": expected string, found number",
            ),
            (
                json!({"level": "1", "disks": 1.5}),
                "clean step raid.build: argument \"disks\": expected integer, found number",
            ),
        ] {
            assert_eq!(run(args).unwrap_err().to_string(), says);
        }
    }

    #[test]
    fn a_step_without_argsinfo_takes_none() {
        let step = json!({"interface": "raid", "step": "build", "args": {"a": 1}});
        let step = lenient(&step).unwrap();
        let refused = check(Kind::Deploy, &step, None).unwrap_err().to_string();
        assert_eq!(
            refused,
            "deploy step raid.build: unknown argument \"a\", the step takes none"
        );
    }
}
