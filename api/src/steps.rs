//! Steps as deploy templates and runbooks hold them.

use std::collections::BTreeSet;

use serde_json::Map;
use serde_json::Value;

use crate::error::Result;
use crate::value::Noun;

/// Interfaces that have steps.
const INTERFACES: [&str; 7] = [
    "bios",
    "deploy",
    "firmware",
    "management",
    "power",
    "raid",
    "vendor",
];
/// Steps of one list, at most.
const MOST: usize = 256;

/// One step.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) interface: String,
    pub(crate) step: String,
    pub(crate) args: Map<String, Value>,
    /// Its `priority` or `order`.
    pub(crate) rank: u32,
}

/// Reads a list of steps: at least one, each with all of `interface`, `step`,
/// `args` and `rank` (`priority` or `order`) and nothing else, no step twice.
pub(crate) fn read(noun: Noun, rank: &'static str, value: Value) -> Result<Vec<Read>> {
    let Value::Array(items) = value else {
        return Err(noun.mismatch("steps", "an array", &value));
    };
    if items.is_empty() {
        return Err(noun.bad("steps", "expected at least one step, found none"));
    }
    if items.len() > MOST {
        return Err(noun.bad("steps", &format!("more than {MOST} steps")));
    }
    let steps: Vec<Read> = items
        .into_iter()
        .map(|item| one(noun, rank, item))
        .collect::<Result<_>>()?;
    let mut seen = BTreeSet::new();
    for step in &steps {
        if !seen.insert((&step.interface, &step.step)) {
            let name = format!("{}.{}", step.interface, step.step);
            return Err(noun.bad("steps", &format!("step {name} is there more than once")));
        }
    }
    Ok(steps)
}

fn one(noun: Noun, rank: &'static str, item: Value) -> Result<Read> {
    let Value::Object(mut item) = item else {
        return Err(noun.mismatch("steps", "objects in the array", &item));
    };
    let known = |key: &str| matches!(key, "interface" | "step" | "args") || key == rank;
    if let Some(key) = item.keys().find(|key| !known(key)) {
        return Err(noun.schema(&format!(
            "Additional properties are not allowed ('{key}' was unexpected)"
        )));
    }
    let mut take = |key: &str| {
        item.remove(key)
            .ok_or_else(|| noun.schema(&format!("'{key}' is a required property")))
    };
    let interface = noun.needed("interface", take("interface")?, 255)?;
    let step = noun.needed("step", take("step")?, 255)?;
    let args = noun.object("args", take("args")?)?;
    let rank = noun.number(rank, &take(rank)?)?;
    if !INTERFACES.contains(&interface.as_str()) {
        let known = INTERFACES.join(", ");
        return Err(noun.bad("interface", &format!("'{interface}' is not one of {known}")));
    }
    Ok(Read {
        interface,
        step,
        args,
        rank,
    })
}
