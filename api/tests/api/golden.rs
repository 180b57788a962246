//! The API against reduced exchanges with a real Ironic: status, headers, keys
//! and the types of values. Where we differ on purpose, `differences.json` says
//! so with the reason, and a difference that is gone must go from there too.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;

use axum::body::Body;
use axum::http::Request;
use serde::Deserialize;
use serde_json::Value;
use wrought_api::Auth;

use crate::support::Answer;
use crate::support::Api;

#[derive(Deserialize)]
struct Case {
    name: String,
    given: String,
    request: Asked,
    expect: Expected,
}

#[derive(Deserialize)]
struct Asked {
    method: String,
    path: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<Value>,
}

#[derive(Deserialize)]
struct Expected {
    status: u16,
    headers: Vec<String>,
    body: Option<Value>,
    error: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Difference {
    case: String,
    difference: String,
    reason: String,
}

#[tokio::test]
async fn answers_have_ironics_shape() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let listed: Vec<Difference> = serde_json::from_str(&read("differences.json")).unwrap();
    assert!(listed.iter().all(|difference| difference.reason.len() > 20));
    let listed: BTreeSet<(String, String)> = listed
        .into_iter()
        .map(|item| (item.case, item.difference))
        .collect();
    let users = tempfile::NamedTempFile::new().unwrap();
    let line = format!("admin:{}\n", bcrypt::hash("secret", 4).unwrap());
    std::fs::write(users.path(), line).unwrap();
    let mut found = BTreeSet::new();
    let mut count = 0;
    for group in [
        "root",
        "drivers",
        "node-lists",
        "nodes",
        "node-updates",
        "node-actions",
        "ports",
        "ramdisk",
        "basic",
    ] {
        let cases: Vec<Case> = serde_json::from_str(&read(&format!("{group}.json"))).unwrap();
        for case in cases {
            count += 1;
            let auth = match group {
                "basic" => Auth::basic(users.path(), None).unwrap(),
                _ => Auth::none(),
            };
            let answer = ask(&case, auth).await;
            for difference in compare(&case.expect, &answer) {
                found.insert((format!("{group}/{}", case.name), difference));
            }
        }
    }
    assert!(count > 130, "only {count} cases");
    let news: Vec<_> = found.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(
        news.is_empty() && gone.is_empty(),
        "not listed: {news:#?}\nno longer true: {gone:#?}"
    );
}

async fn ask(case: &Case, auth: Auth) -> Answer {
    let api = Api::new(&case.given, auth).await;
    let mut request = Request::builder()
        .method(case.request.method.as_str())
        .uri(&case.request.path)
        .header("host", "api.test");
    for (name, value) in &case.request.headers {
        request = request.header(name, value);
    }
    let body = match &case.request.body {
        Some(body) => Body::from(body.to_string()),
        None => Body::empty(),
    };
    api.send(request.body(body).unwrap()).await
}

fn compare(expected: &Expected, answer: &Answer) -> Vec<String> {
    let mut found = Vec::new();
    if answer.status != expected.status {
        found.push(format!(
            "status {} instead of {}",
            answer.status, expected.status
        ));
    }
    for name in &expected.headers {
        if !answer.headers.contains_key(name) {
            found.push(format!("no header {name}"));
        }
    }
    let body = answer.json();
    if let Some(shape) = &expected.body {
        fits(shape, &body, "", &mut found);
    }
    if let Some(error) = &expected.error {
        let inner = body
            .get("error_message")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let inner: Value = serde_json::from_str(inner).unwrap_or_default();
        let keys: BTreeSet<&str> = inner
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key.as_str())
            .collect();
        let wanted: BTreeSet<&str> = error.keys().map(String::as_str).collect();
        if keys != wanted {
            found.push(format!("error keys {keys:?} instead of {wanted:?}"));
        } else if let Some(code) = error
            .get("faultcode")
            .filter(|code| inner["faultcode"] != **code)
        {
            found.push(format!(
                "faultcode {} instead of {code}",
                inner["faultcode"]
            ));
        }
    }
    if expected.body.is_none() && expected.error.is_none() && !answer.text.is_empty() {
        found.push("a body where there was none".to_owned());
    }
    found
}

/// Compares keys and types. Null fits everything, since what is set differs
/// from run to run; a key with `?` may be missing.
fn fits(shape: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    match (shape, value) {
        (Value::Object(shape), Value::Object(value)) => {
            for (key, inner) in shape {
                let (name, optional) = match key.strip_suffix('?') {
                    Some(name) => (name, true),
                    None => (key.as_str(), false),
                };
                match value.get(name) {
                    Some(value) => fits(inner, value, &format!("{path}/{name}"), found),
                    None if optional => {}
                    None => found.push(format!("{path}/{name} is missing")),
                }
            }
            for key in value
                .keys()
                .filter(|key| !shape.contains_key(*key) && !shape.contains_key(&format!("{key}?")))
            {
                found.push(format!("{path}/{key} is too much"));
            }
        }
        (Value::Array(shape), Value::Array(items)) => {
            if let Some(shape) = shape.first() {
                items
                    .iter()
                    .for_each(|item| fits(shape, item, &format!("{path}[]"), found));
                found.dedup();
            }
        }
        (Value::String(wanted), _) if wanted == "null" || kind == "null" || wanted == kind => {}
        _ => found.push(format!("{path} is {kind}, not {shape}")),
    }
}
