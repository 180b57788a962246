//! Inspection over HTTP: rules, what was found, and the ramdisk's own call.

use axum::body::Body;
use axum::http::Request;
use serde_json::Value;
use serde_json::json;
use wrought_store::Inventory;

use crate::support::A;
use crate::support::Api;
use crate::support::N1;

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}

fn rule() -> Value {
    json!({"description": "r2", "priority": 10, "phase": "main",
        "conditions": [{"op": "eq", "args": {"values": ["{node.driver}", "fake-hardware"]}}],
        "actions": [{"op": "set-attribute", "args": {"path": "/extra/x", "value": "y"}}]})
}

#[tokio::test]
async fn rules_live() {
    let api = Api::open().await;
    let made = api
        .call("latest", "POST", "/v1/inspection_rules", rule())
        .await;
    assert_eq!(made.status, 201, "{}", made.text);
    let shown = made.json();
    let uuid = shown["uuid"].as_str().unwrap().to_owned();
    assert_eq!(
        keys(&shown),
        [
            "actions",
            "conditions",
            "created_at",
            "description",
            "links",
            "phase",
            "priority",
            "sensitive",
            "updated_at",
            "uuid"
        ]
    );
    assert_eq!(shown["conditions"], rule()["conditions"]);
    assert_eq!(shown["sensitive"], false);
    assert_eq!(
        made.headers["location"],
        format!("http://api.test/v1/inspection_rules/{uuid}")
    );
    let list = api.get("/v1/inspection_rules").await.json();
    let brief = &list["inspection_rules"][0];
    assert_eq!(
        keys(brief),
        ["description", "links", "phase", "priority", "uuid"]
    );
    let list = api
        .get("/v1/inspection_rules?detail=true&phase=main")
        .await
        .json();
    assert_eq!(list["inspection_rules"][0]["actions"], rule()["actions"]);
    let path = format!("/v1/inspection_rules/{uuid}");
    let patch = json!([{"op": "replace", "path": "/priority", "value": 9999},
        {"op": "add", "path": "/actions/-", "value": {"op": "log", "args": {"msg": "m"}}}]);
    let changed = api.call("latest", "PATCH", &path, patch).await.json();
    assert_eq!(
        (
            &changed["priority"],
            changed["actions"].as_array().unwrap().len()
        ),
        (&json!(9999), 2)
    );
    assert_eq!(
        api.call("latest", "DELETE", &path, Value::Null)
            .await
            .status,
        204
    );
    assert_eq!(api.get(&path).await.status, 404);
    for _ in 0..3 {
        api.call("latest", "POST", "/v1/inspection_rules", rule())
            .await;
    }
    let gone = api
        .call("latest", "DELETE", "/v1/inspection_rules", Value::Null)
        .await;
    assert_eq!(gone.status, 204);
    assert_eq!(
        api.get("/v1/inspection_rules").await.json(),
        json!({"inspection_rules": []})
    );
}

#[tokio::test]
async fn bad_rules_are_named() {
    let api = Api::open().await;
    let with = |field: &str, value: Value| {
        let mut body = rule();
        body[field] = value;
        body
    };
    for (body, text) in [
        (
            json!({"actions": [{"op": "nope", "args": {}}]}),
            "Schema error: 'nope' is not one of ['fail', 'log', 'set-attribute', 'extend-attribute', \
             'del-attribute', 'set-capability', 'unset-capability', 'add-trait', 'remove-trait', \
             'set-plugin-data', 'extend-plugin-data', 'unset-plugin-data', 'set-port-attribute', \
             'extend-port-attribute', 'del-port-attribute', 'api-call']",
        ),
        (json!({}), "'actions' is a required property"),
        (with("actions", json!([])), "at least one action"),
        (with("actions", json!({})), "expected a list"),
        (with("priority", json!(10_000)), "more than 9999"),
        (with("priority", json!(-1)), "priority"),
        (with("phase", json!("early")), "phase"),
        (
            with("conditions", json!([{"op": "le", "args": {}}])),
            "'le' is not one of",
        ),
        (
            with(
                "conditions",
                json!([{"op": "in-net", "args": {"address": "x"}}]),
            ),
            "'subnet'",
        ),
        (with("bogus", json!(1)), "bogus"),
    ] {
        let answer = api
            .call("latest", "POST", "/v1/inspection_rules", body.clone())
            .await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.fault().contains(text), "{}", answer.fault());
    }
    assert_eq!(api.get("/v1/inspection_rules/abc").await.status, 400);
}

#[tokio::test]
async fn sensitive_rules_hide_what_they_do() {
    let api = Api::open().await;
    let mut body = rule();
    body["sensitive"] = json!(true);
    let made = api
        .call("latest", "POST", "/v1/inspection_rules", body)
        .await
        .json();
    let path = format!("/v1/inspection_rules/{}", made["uuid"].as_str().unwrap());
    let list = api.get("/v1/inspection_rules?detail=true").await.json();
    for shown in [
        &made,
        &api.get(&path).await.json(),
        &list["inspection_rules"][0],
    ] {
        assert_eq!(
            (&shown["actions"], &shown["conditions"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(shown["sensitive"], true);
    }
    let open = json!([{"op": "replace", "path": "/sensitive", "value": false}]);
    assert_eq!(api.call("latest", "PATCH", &path, open).await.status, 400);
    let text = json!([{"op": "replace", "path": "/description", "value": "other"}]);
    assert_eq!(api.call("latest", "PATCH", &path, text).await.status, 200);
    let asked = api.get(&format!("{path}?fields=actions")).await.json();
    assert_eq!(asked["actions"], Value::Null);
}

#[tokio::test]
async fn rules_by_version() {
    let api = Api::open().await;
    let path = "/v1/inspection_rules/aaaaaaaa-0000-4000-8000-00000000aaaa";
    for (version, method, path, status) in [
        ("1.95", "GET", "/v1/inspection_rules", 404),
        ("1.95", "GET", path, 404),
        ("1.95", "POST", "/v1/inspection_rules", 405),
        ("1.95", "DELETE", "/v1/inspection_rules", 405),
        ("1.95", "PATCH", path, 405),
        ("1.95", "DELETE", path, 405),
        ("1.96", "GET", "/v1/inspection_rules", 200),
        ("1.96", "POST", "/v1/inspection_rules", 201),
        ("1.96", "DELETE", path, 404),
    ] {
        let body = if method == "POST" {
            rule()
        } else {
            Value::Null
        };
        let answer = api.call(version, method, path, body).await;
        assert_eq!(
            answer.status, status,
            "{version} {method} {path}: {}",
            answer.text
        );
    }
}

#[tokio::test]
async fn what_was_found_is_shown() {
    let api = Api::open().await;
    let path = format!("/v1/nodes/{N1}/inventory");
    let none = api.get(&path).await;
    assert_eq!(none.status, 404);
    assert_eq!(
        none.fault(),
        format!("Node inventory record for node {N1} could not be found.")
    );
    let found = json!({"inventory": {"cpu": {"count": 4}}, "plugin_data": {"macs": []}});
    let stored: Inventory = serde_json::from_value(found.clone()).unwrap();
    api.store
        .save_inventory(N1.parse().unwrap(), &stored)
        .await
        .unwrap();
    assert_eq!(api.get("/v1/nodes/node-1/inventory").await.json(), found);
    assert_eq!(api.get(&format!("{path}?x=1")).await.status, 400);
    let old = api.call("1.80", "GET", &path, Value::Null).await;
    assert_eq!(old.status, 404);
}

fn found() -> Value {
    json!({"inventory": {"bmc_address": null, "cpu": {"architecture": "x86_64", "count": 4},
        "interfaces": [{"name": "eth0", "mac_address": "52:54:00:00:aa:02"}]},
        "root_disk": {"name": "/dev/vda"}})
}

#[tokio::test]
async fn ramdisks_say_what_they_found() {
    let api = Api::open().await;
    let named = format!("/v1/continue_inspection?node_uuid={A}");
    let answer = api.call("1.84", "POST", &named, found()).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    let body = answer.json();
    assert_eq!(keys(&body), ["config", "node"]);
    assert_eq!(
        keys(&body["node"]),
        [
            "driver_internal_info",
            "instance_info",
            "links",
            "properties",
            "uuid"
        ]
    );
    assert_eq!(body["node"]["uuid"], A);
    assert!(!answer.text.contains("known"), "the node's token is masked");
    let stored = api
        .store
        .inventory(A.parse().unwrap())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(stored.inventory["cpu"]["count"], 4);
    assert_eq!(stored.plugin_data["root_disk"]["name"], "/dev/vda");
    // The form before there was a version for it.
    let old = api
        .call("1.1", "POST", "/v1/continue_inspection", found())
        .await;
    assert_eq!((old.status, old.json()), (202, json!({"uuid": A})));
    for (version, path) in [
        ("1.1", named.as_str()),
        ("1.2", "/v1/continue_inspection"),
        ("1.83", named.as_str()),
        ("1.83", "/v1/continue_inspection"),
    ] {
        let answer = api.call(version, "POST", path, found()).await;
        assert_eq!(answer.status, 404, "{version} {path}");
    }
    let none = "/v1/continue_inspection?node_uuid=aaaaaaaa-0000-4000-8000-00000000aaaa";
    assert_eq!(api.call("latest", "POST", none, found()).await.status, 404);
}

#[tokio::test]
async fn what_ramdisks_send_is_checked_and_bounded() {
    let api = Api::open().await;
    for body in [
        json!({}),
        json!([]),
        json!({"inventory": []}),
        json!({"inventory": {}}),
        json!({"inventory": {"interfaces": []}}),
        json!({"inventory": {"interfaces": [{}]}}),
        json!({"inventory": {"interfaces": [{"mac_address": 1}]}}),
    ] {
        let answer = api
            .call("latest", "POST", "/v1/continue_inspection", body.clone())
            .await;
        assert_eq!(answer.status, 400, "{body}");
    }
    let unknown = "/v1/continue_inspection?bogus=1";
    assert_eq!(
        api.call("latest", "POST", unknown, found()).await.status,
        400
    );
    // More than an ordinary body may have is fine here, up to 16 MiB.
    let mut large = found();
    large["logs"] = json!("x".repeat(8 << 20));
    let path = format!("/v1/continue_inspection?node_uuid={A}");
    assert_eq!(
        api.call("latest", "POST", &path, large.clone())
            .await
            .status,
        202
    );
    large["logs"] = json!("x".repeat(16 << 20));
    let refused = api.call("latest", "POST", &path, large).await;
    assert_eq!(refused.status, 413);
    assert_eq!(refused.json()["faultcode"], "Client");
    let deep = format!("{{\"inventory\":{}{}}}", "[".repeat(30), "]".repeat(30));
    let request = Request::post(&path)
        .header("x-openstack-ironic-api-version", "latest")
        .body(Body::from(deep))
        .unwrap();
    assert_eq!(api.send(request).await.status, 400);
}
