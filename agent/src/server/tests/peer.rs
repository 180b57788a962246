//! Every kind of exchange that was recorded with ironic-python-agent 13.0.0,
//! put to this server with the agent's own commands: same status, same headers
//! that clients read, same keys and kinds of values. `differences.json` names
//! what differs, each with a reason; one that no longer holds fails the test.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Notify;
use tower::ServiceExt;
use wrought_wire::secret::Secret;

use crate::command::Agent;
use crate::command::Mode;
use crate::command::Registry;
use crate::command::Runner;
use crate::logging::Ring;
use crate::server::Shared;
use crate::server::router;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const HOST: &str = "127.0.0.1:9999";
/// Where an image is that takes for ever.
const SLOW: &str = "/slow/";

#[derive(Debug, Deserialize)]
struct Exchange {
    name: String,
    method: String,
    path: String,
    body: Option<String>,
    status: u16,
    headers: BTreeMap<String, String>,
    answer: Option<Value>,
}

/// Keys that the real agent gives only for some steps, and one that only ours
/// gives.
const OPTIONAL: &str = "argsinfo";
const OURS: &str = "repeatable";

/// What may differ in one exchange.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    /// Our status.
    status: Option<u16>,
    /// Keys that only ours has.
    #[serde(default)]
    more: Vec<String>,
    reason: String,
}

/// Notes where keys and kinds of values differ; contents may. `loose`: below a
/// command's result, where null and an empty list stand for what a machine does
/// not have.
fn compare(at: &str, ours: &Value, theirs: &Value, loose: bool, odd: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            // Names of managers and of a step's arguments are each one's own.
            let own = ["_steps", "hardware_manager_version", "argsinfo"];
            if own.iter().any(|end| at.ends_with(end)) {
                if let (Some(ours), Some(theirs)) = (ours.values().next(), theirs.values().next()) {
                    compare(&format!("{at}.*"), ours, theirs, loose, odd);
                }
                return;
            }
            for (key, theirs) in theirs {
                let at = format!("{at}.{key}");
                let loose = loose || key == "command_result";
                match ours.get(key) {
                    Some(ours) => compare(&at, ours, theirs, loose, odd),
                    None if key == OPTIONAL => {}
                    None => odd.push(format!("{at} is not there")),
                }
            }
            let known = |key: &String| theirs.contains_key(key) || key == OURS;
            let more = ours.keys().filter(|key| !known(key));
            odd.extend(more.map(|key| format!("{at}.{key} is new")));
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            if let (Some(ours), Some(theirs)) = (ours.first(), theirs.first()) {
                compare(&format!("{at}[]"), ours, theirs, loose, odd);
            } else if !loose && ours.is_empty() != theirs.is_empty() {
                odd.push(format!("{at}: one list is empty"));
            }
        }
        (Value::Null, _) | (_, Value::Null) if loose => {}
        (ours, theirs) => {
            if std::mem::discriminant(ours) != std::mem::discriminant(theirs) {
                odd.push(format!("{at}: {ours} not {theirs}"));
            }
        }
    }
}

struct Server {
    router: Router,
    last: String,
}

impl Server {
    fn start() -> Self {
        let mut registry = Registry::default();
        crate::ext::register(&mut registry, Arc::new(Ring::default()));
        crate::deploy::register(&mut registry);
        crate::inventory::register(&mut registry);
        let runner = Runner::new(Arc::new(Agent::for_tests()), registry);
        Self::of(runner)
    }

    /// One whose only image never ends.
    fn busy() -> Self {
        let mut registry = Registry::default();
        crate::ext::register(&mut registry, Arc::new(Ring::default()));
        let never = Arc::new(Notify::new());
        registry.task("standby.prepare_image", Mode::Async, move |_, _| {
            let never = Arc::clone(&never);
            async move {
                never.notified().await;
                Ok(Value::Null)
            }
        });
        Self::of(Runner::new(Arc::new(Agent::for_tests()), registry))
    }

    fn of(runner: Runner) -> Self {
        Self {
            router: router(Shared::new(Arc::new(runner), Secret::new(TOKEN))),
            last: String::new(),
        }
    }

    async fn answer(&mut self, exchange: &Exchange) -> (u16, BTreeMap<String, String>, Value) {
        let path = exchange
            .path
            .replace("{token}", TOKEN)
            .replace("{last}", &self.last);
        let mut request = Request::builder()
            .method(exchange.method.as_str())
            .uri(path)
            .header("host", HOST);
        if exchange.body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = exchange.body.clone().unwrap_or_default();
        let request = request.body(Body::from(body)).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let headers = response.headers().iter();
        let headers = headers
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20)
            .await
            .unwrap();
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if let Some(id) = answer.get("id").and_then(Value::as_str)
            && exchange.method == "POST"
        {
            id.clone_into(&mut self.last);
        }
        (status, headers, answer)
    }
}

/// What is unlike in an answer, one line each.
fn unlike(
    exchange: &Exchange,
    allowed: Option<&Difference>,
    (status, headers, mut answer): (u16, BTreeMap<String, String>, Value),
) -> Vec<String> {
    let mut found = Vec::new();
    let expected = allowed.and_then(|allowed| allowed.status);
    if status != expected.unwrap_or(exchange.status) {
        found.push(format!("status {status}: {answer}"));
    }
    if expected.is_some() {
        // Another status has another body.
        return found;
    }
    for (name, value) in &exchange.headers {
        if headers.get(name) != Some(value) {
            found.push(format!("header {name}: {:?}", headers.get(name)));
        }
    }
    for key in allowed.iter().flat_map(|allowed| &allowed.more) {
        if answer
            .as_object_mut()
            .and_then(|map| map.remove(key))
            .is_none()
        {
            found.push(format!("no {key} any more"));
        }
    }
    let theirs = exchange.answer.clone().unwrap_or_default();
    compare("", &answer, &theirs, false, &mut found);
    found
}

#[tokio::test]
async fn answers_are_shaped_like_the_real_agents() {
    let exchanges: Vec<Exchange> =
        serde_json::from_str(include_str!("peer/exchanges.json")).unwrap();
    let differences: BTreeMap<String, Difference> =
        serde_json::from_str(include_str!("peer/differences.json")).unwrap();
    let mut server = Server::start();
    let mut odd = Vec::new();
    for exchange in &exchanges {
        if exchange
            .body
            .as_ref()
            .is_some_and(|body| body.contains(SLOW))
        {
            server = Server::busy();
        }
        if exchange.name == "method-405" {
            server = Server::start();
        }
        let allowed = differences.get(&exchange.name);
        let reasoned = allowed.is_none_or(|allowed| !allowed.reason.is_empty());
        assert!(reasoned, "{}: no reason", exchange.name);
        let answer = server.answer(exchange).await;
        let found = unlike(exchange, allowed, answer);
        odd.extend(
            found
                .iter()
                .map(|line| format!("{}: {line}", exchange.name)),
        );
    }
    let named = |name: &String| exchanges.iter().any(|exchange| exchange.name == *name);
    odd.extend(differences.keys().filter(|name| !named(name)).cloned());
    assert!(odd.is_empty(), "{}", odd.join("\n"));
}
