//! What an executable says of its steps.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::CONTRACT;

/// Steps of one executable.
pub const STEPS_MAX: usize = 64;
/// Seconds that a step may take which says nothing else.
pub const TIMEOUT: u64 = 600;
/// Interfaces that have steps.
const INTERFACES: [&str; 8] = [
    "bios",
    "deploy",
    "firmware",
    "management",
    "network",
    "power",
    "raid",
    "vendor",
];

/// One priority, or one for each kind; 0 runs only when it is asked for.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Priority {
    /// For all kinds.
    One(i64),
    /// By kind.
    Each(BTreeMap<String, i64>),
}

impl Default for Priority {
    fn default() -> Self {
        Self::One(0)
    }
}

/// Whether it follows the contract that `who` knows.
///
/// # Errors
/// Another contract, in one clause.
pub fn contract(found: u32, who: &str) -> Result<(), String> {
    match found {
        CONTRACT => Ok(()),
        other => Err(format!(
            "it follows contract {other}, {who} knows {CONTRACT}"
        )),
    }
}

/// Whether `found` is one of the words that are `known`.
///
/// # Errors
/// That it is none, in one clause.
pub fn one_of(what: &str, known: &[&str], found: &str) -> Result<(), String> {
    match known.contains(&found) {
        true => Ok(()),
        false => Err(format!("{what} {found:?} is none of {}", known.join(", "))),
    }
}

/// Looks at a step's names and gives its priority for each of its kinds, all of
/// which must be `known`.
///
/// # Errors
/// What is wrong with it, in one clause.
pub fn priorities(
    interface: &str,
    step: &str,
    kinds: Vec<String>,
    priority: &Priority,
    known: &[&str],
) -> Result<Vec<(String, i64)>, String> {
    one_of("interface", &INTERFACES, interface)?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if step.is_empty() || !step.chars().all(plain) {
        return Err("its name must be of a-z, 0-9 and _".to_owned());
    }
    if kinds.is_empty() {
        return Err(format!(
            "\"kinds\" is empty: name some of {}",
            known.join(", ")
        ));
    }
    let mut found = Vec::new();
    for kind in kinds {
        one_of("kind", known, &kind)?;
        let priority = match priority {
            Priority::One(priority) => *priority,
            Priority::Each(each) => each.get(&kind).copied().unwrap_or(0),
        };
        if priority < 0 {
            return Err(format!("priority {priority} is below 0"));
        }
        found.push((kind, priority));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Priority;
    use super::contract;
    use super::priorities;

    const KINDS: [&str; 2] = ["clean", "deploy"];

    fn of(interface: &str, step: &str, kinds: &[&str], priority: serde_json::Value) -> String {
        let kinds = kinds.iter().map(|&kind| kind.to_owned()).collect();
        let priority: Priority = serde_json::from_value(priority).unwrap();
        match priorities(interface, step, kinds, &priority, &KINDS) {
            Ok(found) => format!("{found:?}"),
            Err(problem) => problem,
        }
    }

    #[test]
    fn priorities_are_by_kind() {
        let each = json!({"clean": 30});
        assert_eq!(
            of("bios", "a_1", &["clean", "deploy"], each),
            "[(\"clean\", 30), (\"deploy\", 0)]"
        );
        assert_eq!(of("raid", "a", &["deploy"], json!(5)), "[(\"deploy\", 5)]");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (found, says) in [
            (of("fans", "a", &["clean"], json!(0)), "is none of bios"),
            (of("bios", "Set", &["clean"], json!(0)), "must be of a-z"),
            (of("bios", "", &["clean"], json!(0)), "must be of a-z"),
            (of("bios", "a", &[], json!(0)), "\"kinds\" is empty"),
            (
                of("bios", "a", &["polish"], json!(0)),
                "kind \"polish\" is none of clean, deploy",
            ),
            (of("bios", "a", &["clean"], json!(-1)), "-1 is below 0"),
        ] {
            assert!(found.contains(says), "{found}");
        }
        assert_eq!(contract(1, "this agent"), Ok(()));
        assert_eq!(
            contract(2, "this agent").unwrap_err(),
            "it follows contract 2, this agent knows 1"
        );
    }
}
