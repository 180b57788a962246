//! Paths into JSON documents: `/a/b`, `a/b` or `a.b`; `~0` and `~1` in a path
//! that begins with a slash are a tilde and a slash.

use serde_json::Map;
use serde_json::Value;

use super::Stop;

/// Steps of a path, at most.
const DEEPEST: usize = 25;
/// Bytes of one step, at most.
const LONGEST: usize = 255;

/// Takes a path apart; at least one step.
pub(super) fn split(path: &str) -> Result<Vec<String>, Stop> {
    let steps: Vec<String> = match path.strip_prefix('/') {
        Some(rest) => {
            let step = |step: &str| step.replace("~1", "/").replace("~0", "~");
            rest.split('/').map(step).collect()
        }
        None => path.split(['/', '.']).map(str::to_owned).collect(),
    };
    let bad = |step: &String| step.is_empty() || step.len() > LONGEST;
    if steps.len() > DEEPEST || steps.iter().any(bad) {
        let shown: String = path.chars().take(100).collect();
        return Err(Stop::problem(format!(
            "the path {shown:?} is not one of 1 to {DEEPEST} steps of 1 to {LONGEST} bytes"
        )));
    }
    Ok(steps)
}

/// Sets a value, making the objects on the way to it.
pub(super) fn set(
    document: &mut Map<String, Value>,
    path: &[String],
    value: Value,
) -> Result<(), Stop> {
    *place(document, path)? = value;
    Ok(())
}

/// Appends to the list at the path; nothing there is an empty one.
pub(super) fn extend(
    document: &mut Map<String, Value>,
    path: &[String],
    value: Value,
    unique: bool,
) -> Result<(), Stop> {
    let place = place(document, path)?;
    if place.is_null() {
        *place = Value::Array(Vec::new());
    }
    let Value::Array(items) = place else {
        return Err(Stop::problem(format!(
            "what is at {} is no list",
            shown(path)
        )));
    };
    if !(unique && items.contains(&value)) {
        items.push(value);
    }
    Ok(())
}

/// Removes what is at the path, if there is anything. A field of the document
/// itself becomes null.
pub(super) fn remove(document: &mut Map<String, Value>, path: &[String]) {
    let Some((root, rest)) = path.split_first() else {
        return;
    };
    let Some(mut here) = document.get_mut(root) else {
        return;
    };
    let Some((last, parents)) = rest.split_last() else {
        *here = Value::Null;
        return;
    };
    for step in parents {
        let next = match here {
            Value::Object(object) => object.get_mut(step),
            Value::Array(items) => step.parse::<usize>().ok().and_then(|at| items.get_mut(at)),
            _ => None,
        };
        match next {
            Some(next) => here = next,
            None => return,
        }
    }
    match here {
        Value::Object(object) => {
            object.remove(last);
        }
        Value::Array(items) => {
            if let Some(at) = last.parse::<usize>().ok().filter(|at| *at < items.len()) {
                items.remove(at);
            }
        }
        _ => {}
    }
}

/// The value at a path, made as null where there is none.
fn place<'d>(document: &'d mut Map<String, Value>, path: &[String]) -> Result<&'d mut Value, Stop> {
    let Some((root, rest)) = path.split_first() else {
        return Err(Stop::problem("the path is empty"));
    };
    let mut here = document.entry(root.clone()).or_insert(Value::Null);
    for step in rest {
        if here.is_null() {
            *here = Value::Object(Map::new());
        }
        here = match here {
            Value::Object(object) => object.entry(step.clone()).or_insert(Value::Null),
            Value::Array(items) => step
                .parse::<usize>()
                .ok()
                .and_then(|at| items.get_mut(at))
                .ok_or_else(|| Stop::problem(format!("{} has no item {step:?}", shown(path))))?,
            _ => {
                let text = format!("{} leads through a value that holds nothing", shown(path));
                return Err(Stop::problem(text));
            }
        };
    }
    Ok(here)
}

/// A path for messages.
pub(super) fn shown(path: &[String]) -> String {
    format!("/{}", path.join("/"))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::extend;
    use super::remove;
    use super::set;
    use super::split;

    fn document() -> serde_json::Map<String, Value> {
        json!({"a": {"b": [1, {"c": 2}]}, "n": null, "t": "x"})
            .as_object()
            .unwrap()
            .clone()
    }

    #[test]
    fn each_notation() {
        for path in ["/a/b", "a/b", "a.b"] {
            assert_eq!(split(path).unwrap(), ["a", "b"], "{path}");
        }
        assert_eq!(split("/a.b/c~1d~0").unwrap(), ["a.b", "c/d~"]);
        for bad in ["", "/", "a//b", "a..b", &"/x".repeat(26), &"x".repeat(256)] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sets_extends_and_removes() {
        let mut document = document();
        let mut at = |path: &str, value: Value| set(&mut document, &split(path).unwrap(), value);
        at("/n/x/y", json!(1)).unwrap();
        at("/a/b/1/c", json!(3)).unwrap();
        at("/new", json!([])).unwrap();
        assert!(at("/a/b/7", json!(1)).is_err());
        assert!(at("/t/x", json!(1)).is_err());
        let list = split("/new").unwrap();
        for (value, unique) in [(1, false), (1, true), (1, false), (2, true)] {
            extend(&mut document, &list, json!(value), unique).unwrap();
        }
        extend(
            &mut document,
            &split("/fresh/list").unwrap(),
            json!("z"),
            true,
        )
        .unwrap();
        assert!(extend(&mut document, &split("/t").unwrap(), json!(1), false).is_err());
        for path in ["/a/b/0", "/none/x", "/t/x", "/a/x/y", "/t"] {
            remove(&mut document, &split(path).unwrap());
        }
        let expected = json!({"a": {"b": [{"c": 3}]}, "n": {"x": {"y": 1}}, "t": null,
            "new": [1, 1, 2], "fresh": {"list": ["z"]}});
        assert_eq!(Value::Object(document), expected);
    }
}
