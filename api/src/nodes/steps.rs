//! The shape of step lists in provision requests.

use serde_json::Map;
use serde_json::Value;

use crate::body;
use crate::error::ApiError;
use crate::error::Result;

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
/// Steps in one request, at most.
const MOST: usize = 256;

/// Checks a list of steps: `clean_steps`, `deploy_steps` or `service_steps`.
pub(crate) fn check(key: &str, value: Value) -> Result<Vec<Value>> {
    let Value::Array(steps) = value else {
        return Err(bad(
            key,
            &format!("expected an array, found {}", body::kind(&value)),
        ));
    };
    if steps.len() > MOST {
        return Err(bad(key, &format!("more than {MOST} steps")));
    }
    for (index, step) in steps.iter().enumerate() {
        let step = step
            .as_object()
            .ok_or_else(|| bad(key, &format!("step {index} is not an object")))?;
        one(key, step).map_err(|problem| bad(key, &format!("step {index}: {problem}")))?;
    }
    Ok(steps)
}

fn bad(key: &str, problem: &str) -> ApiError {
    ApiError::bad_request(format!("Schema error for {key}: {problem}"))
}

fn one(key: &str, step: &Map<String, Value>) -> Result<(), String> {
    let deploy = key == "deploy_steps";
    for (name, value) in step {
        let fine = match name.as_str() {
            "interface" => value.as_str().is_some_and(|interface| {
                INTERFACES.contains(&interface)
                    || (key == "service_steps" && interface == "network")
            }),
            "step" => value.as_str().is_some_and(|step| !step.is_empty()),
            "args" => value.is_object(),
            "priority" if deploy => {
                value.as_u64().is_some()
                    || value
                        .as_str()
                        .is_some_and(|text| text.parse::<u64>().is_ok())
            }
            "order" if !deploy => value.as_i64().is_some(),
            "execute_on_child_nodes" if !deploy => value.is_boolean(),
            "limit_child_node_execution" if !deploy => value.is_array(),
            _ => return Err(format!("additional property {name:?}")),
        };
        if !fine {
            return Err(format!("{name:?} has a value that is not valid"));
        }
    }
    let required: &[&str] = if deploy {
        &["interface", "step", "args", "priority"]
    } else {
        &["interface", "step"]
    };
    match required.iter().find(|name| !step.contains_key(**name)) {
        Some(name) => Err(format!("'{name}' is a required property")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::check;

    #[test]
    fn shapes() {
        let good = json!([{"interface": "deploy", "step": "erase_devices", "args": {}}]);
        assert!(check("clean_steps", good).is_ok());
        let good = json!([{"interface": "deploy", "step": "x", "args": {}, "priority": "5"}]);
        assert!(check("deploy_steps", good).is_ok());
        for (key, bad) in [
            ("clean_steps", json!({})),
            ("clean_steps", json!([1])),
            ("clean_steps", json!([{"interface": "deploy"}])),
            ("clean_steps", json!([{"interface": "nope", "step": "x"}])),
            (
                "clean_steps",
                json!([{"interface": "network", "step": "x"}]),
            ),
            (
                "clean_steps",
                json!([{"interface": "deploy", "step": "x", "priority": 1}]),
            ),
            (
                "deploy_steps",
                json!([{"interface": "deploy", "step": "x", "args": {}}]),
            ),
            (
                "deploy_steps",
                json!([{"interface": "deploy", "step": "x", "args": {}, "priority": -1}]),
            ),
        ] {
            assert_eq!(check(key, bad.clone()).unwrap_err().status(), 400, "{bad}");
        }
    }
}
