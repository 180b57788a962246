//! Priorities of steps as operators set them.

use std::collections::BTreeMap;

use serde::Deserialize;
use wrought_wire::step::Step;

/// Priorities by `interface.step`. In the file it is a table, or Ironic's text
/// `deploy.erase_devices:10,raid.delete_configuration:0`; 0 switches a step
/// off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Given")]
pub struct Priorities(BTreeMap<String, i64>);

#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Text(String),
    Table(BTreeMap<String, Number>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Plain(i64),
    Text(String),
}

impl TryFrom<Given> for Priorities {
    type Error = String;

    fn try_from(given: Given) -> Result<Self, String> {
        let pairs: Vec<(String, String)> = match given {
            Given::Table(table) => table
                .into_iter()
                .map(|(name, number)| match number {
                    Number::Plain(number) => (name, number.to_string()),
                    Number::Text(text) => (name, text),
                })
                .collect(),
            Given::Text(text) => text
                .split(',')
                .filter(|pair| !pair.trim().is_empty())
                .map(|pair| match pair.rsplit_once(':') {
                    Some((name, number)) => Ok((name.to_owned(), number.to_owned())),
                    None => Err(format!(
                        "{pair:?} is not of the form interface.step:priority"
                    )),
                })
                .collect::<Result<_, _>>()?,
        };
        let mut priorities = BTreeMap::new();
        for (name, number) in pairs {
            let name = name.trim();
            let whole = name
                .split_once('.')
                .is_some_and(|(interface, step)| !interface.is_empty() && !step.is_empty());
            if !whole {
                return Err(format!(
                    "{name:?} is not the name of a step: interface.step"
                ));
            }
            let priority = number.trim().parse::<i64>().ok();
            let priority = priority.filter(|priority| *priority >= 0).ok_or_else(|| {
                format!("priority of step {name}: expected a number from 0 on, found {number:?}")
            })?;
            priorities.insert(name.to_owned(), priority);
        }
        Ok(Self(priorities))
    }
}

impl Priorities {
    /// Sets the priorities of those steps that the operator has named.
    pub fn apply(&self, steps: &mut [Step]) {
        for step in steps {
            let name = format!("{}.{}", step.interface, step.step);
            if let Some(priority) = self.0.get(&name) {
                step.priority = *priority;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Priorities;
    use crate::steps::list::lenient;

    #[test]
    fn table_and_text_say_the_same() {
        let text: Priorities = serde_json::from_value(json!("a.b:10, c.d:0,")).unwrap();
        let table: Priorities = serde_json::from_value(json!({"a.b": 10, "c.d": "0"})).unwrap();
        assert_eq!(text, table);
        let step = |name: &str| lenient(&json!({"interface": name, "step": "d", "priority": 5}));
        let mut steps = [step("c").unwrap(), step("x").unwrap()];
        text.apply(&mut steps);
        assert_eq!((steps[0].priority, steps[1].priority), (0, 5));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (bad, says) in [
            (json!("a.b"), "\"a.b\" is not of the form"),
            (json!("ab:1"), "\"ab\" is not the name of a step"),
            (json!("a.b:-1"), "found \"-1\""),
            (json!({"a.b": "x"}), "priority of step a.b"),
        ] {
            let refused = serde_json::from_value::<Priorities>(bad).unwrap_err();
            assert!(refused.to_string().contains(says), "{refused}");
        }
    }
}
