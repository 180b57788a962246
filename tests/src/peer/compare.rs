//! Where two JSON documents differ.

use serde_json::Value;

/// A line for each place where `found` is not as `wanted`.
pub fn compare(wanted: &Value, found: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    walk(wanted, found, "", &mut lines);
    lines
}

/// Whether `found` has all that `wanted` has: every key of an object, for
/// every item of a list one that fits; an empty list fits only an empty one.
pub fn has(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => wanted
            .iter()
            .all(|(key, wanted)| found.get(key).is_some_and(|found| has(wanted, found))),
        (Value::Array(wanted), Value::Array(found)) => {
            (!wanted.is_empty() || found.is_empty())
                && wanted
                    .iter()
                    .all(|wanted| found.iter().any(|found| has(wanted, found)))
        }
        _ => wanted == found,
    }
}

fn walk(wanted: &Value, found: &Value, path: &str, lines: &mut Vec<String>) {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            for (key, wanted) in wanted {
                match found.get(key) {
                    Some(found) => walk(wanted, found, &format!("{path}/{key}"), lines),
                    None => lines.push(format!("{path}/{key} is missing")),
                }
            }
            for key in found.keys().filter(|key| !wanted.contains_key(*key)) {
                lines.push(format!("{path}/{key} is too much"));
            }
        }
        (Value::Array(wanted), Value::Array(found)) => {
            if wanted.len() != found.len() {
                let (wanted, found) = (wanted.len(), found.len());
                lines.push(format!("{path} has {found} items instead of {wanted}"));
                return;
            }
            for (number, (wanted, found)) in wanted.iter().zip(found).enumerate() {
                walk(wanted, found, &format!("{path}/{number}"), lines);
            }
        }
        _ if wanted == found => {}
        _ => lines.push(format!(
            "{path} is {} instead of {}",
            short(found),
            short(wanted)
        )),
    }
}

/// A value in so many characters that a line stays one.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::compare;
    use super::has;

    #[test]
    fn differences_have_places() {
        let wanted = json!({"a": 1, "b": [{"c": null}], "d": "x"});
        let found = json!({"a": 2, "b": [{"c": "y"}], "e": 1});
        let lines = compare(&wanted, &found);
        let expected = [
            "/a is 2 instead of 1",
            "/b/0/c is \"y\" instead of null",
            "/d is missing",
            "/e is too much",
        ];
        assert_eq!(lines, expected);
        assert!(compare(&wanted, &wanted).is_empty());
    }

    #[test]
    fn a_part_fits() {
        assert!(has(
            &json!([{"a": 1}]),
            &json!([{"b": 2}, {"a": 1, "c": 3}])
        ));
        assert!(!has(&json!([{"a": 1}]), &json!([])));
        assert!(!has(&json!([]), &json!([1])));
    }
}
