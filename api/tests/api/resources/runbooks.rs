//! Runbooks, their traits, and requests that name one.

use serde_json::Value;
use serde_json::json;

use super::BASE;
use super::links;
use super::timeless;
use crate::support::Api;
use crate::support::N1;

const UUID: &str = "c0af0606-7da7-49cb-8881-6a8a5c12767f";

fn step(order: u32, name: &str) -> Value {
    json!({"interface": "vendor", "step": name, "args": {}, "order": order})
}

async fn with_one() -> Api {
    let api = Api::open().await;
    let body = json!({"uuid": UUID, "name": "CUSTOM_GOLD",
        "steps": [step(2, "second"), step(1, "log_passthrough")]});
    let made = api.post("/v1/runbooks", body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(
        made.headers["location"],
        format!("{BASE}/v1/runbooks/{UUID}")
    );
    assert_eq!(timeless(made.json()), whole());
    api
}

fn whole() -> Value {
    json!({"uuid": UUID, "created_at": "set", "updated_at": null, "name": "CUSTOM_GOLD",
        "extra": {}, "public": false, "owner": null, "disable_ramdisk": false,
        "description": null, "links": links(&format!("runbooks/{UUID}")),
        "steps": [step(2, "second"), step(1, "log_passthrough")], "traits": []})
}

#[tokio::test]
async fn made_shown_changed_and_deleted() {
    let api = with_one().await;
    let brief = json!({"uuid": UUID, "name": "CUSTOM_GOLD",
        "links": links(&format!("runbooks/{UUID}"))});
    let list = api.get("/v1/runbooks").await.json();
    assert_eq!(list, json!({"runbooks": [brief]}));
    let list = api.get("/v1/runbooks?detail=true").await.json();
    assert_eq!(timeless(list["runbooks"][0].clone()), whole());
    let path = "/v1/runbooks/CUSTOM_GOLD";
    assert_eq!(timeless(api.get(path).await.json()), whole());
    let set = |field: &str, value: Value| json!([{"op": "replace", "path": format!("/{field}"), "value": value}]);
    let owned = api.patch(path, set("owner", json!("project"))).await.json();
    assert_eq!(owned["owner"], "project");
    let public = api.patch(path, set("public", json!(true))).await.json();
    assert_eq!(
        (&public["public"], &public["owner"]),
        (&json!(true), &Value::Null)
    );
    let owner = set("owner", json!("project"));
    assert_eq!(api.patch(path, owner).await.status, 400);
    assert_eq!(api.patch(path, set("steps", json!([]))).await.status, 400);
    let free = set("name", json!("any-name.1~"));
    assert_eq!(
        api.call("1.111", "PATCH", path, free.clone()).await.status,
        400
    );
    assert_eq!(api.patch(path, free).await.status, 200);
    assert_eq!(api.delete("/v1/runbooks/any-name.1~").await.status, 204);
    assert_eq!(api.get(&format!("/v1/runbooks/{UUID}")).await.status, 404);
}

#[tokio::test]
async fn traits_of_a_runbook() {
    let api = with_one().await;
    let traits = format!("/v1/runbooks/{UUID}/traits");
    let list = async || api.get(&traits).await.json()["traits"].clone();
    assert_eq!(list().await, json!([]));
    let put = async |path: &str, body: Value| api.call("latest", "PUT", path, body).await;
    let set = put(&traits, json!({"traits": ["CUSTOM_B", "CUSTOM_A"]})).await;
    assert_eq!((set.status, set.text.as_str()), (204, ""));
    assert_eq!(list().await, json!(["CUSTOM_A", "CUSTOM_B"]));
    let added = put(&format!("{traits}/CUSTOM_C"), Value::Null).await;
    assert_eq!(added.status, 204);
    assert_eq!(
        added.headers["location"],
        format!("{BASE}{traits}/CUSTOM_C")
    );
    assert_eq!(api.delete(&format!("{traits}/CUSTOM_A")).await.status, 204);
    assert_eq!(api.delete(&format!("{traits}/CUSTOM_A")).await.status, 204);
    assert_eq!(list().await, json!(["CUSTOM_B", "CUSTOM_C"]));
    assert_eq!(
        put(&format!("{traits}/lower"), Value::Null).await.status,
        400
    );
    assert_eq!(api.delete(&traits).await.status, 204);
    assert_eq!(list().await, json!([]));
    let requests = [("GET", traits.as_str(), 404), ("PUT", traits.as_str(), 404)];
    api.statuses("1.111", &requests).await;
    let old = api.call("1.111", "GET", "/v1/runbooks/CUSTOM_GOLD", Value::Null);
    assert_eq!(old.await.json().get("traits"), None);
    let requests = [
        ("GET", "/v1/runbooks?fields=traits", 400),
        ("GET", "/v1/runbooks?fields=name", 200),
    ];
    api.statuses("1.111", &requests).await;
    let requests = [
        ("GET", "/v1/runbooks", 404),
        ("POST", "/v1/runbooks", 405),
        ("DELETE", "/v1/runbooks/CUSTOM_GOLD", 405),
    ];
    api.statuses("1.91", &requests).await;
}

#[tokio::test]
async fn requests_with_a_runbook() {
    let api = with_one().await;
    let path = format!("/v1/nodes/{N1}/states/provision");
    let ask = async |version: &str, body: Value| api.call(version, "PUT", &path, body).await;
    let clean = |runbook: &str| json!({"target": "clean", "runbook": runbook});
    // Since 1.112 a node needs a trait of the runbook's, before one of its name.
    assert_eq!(ask("1.112", clean("CUSTOM_GOLD")).await.status, 400);
    assert_eq!(ask("1.111", clean("CUSTOM_GOLD")).await.status, 202);
    let asked = api.conductor.last_request().unwrap();
    let steps = json!([step(1, "log_passthrough"), step(2, "second")]);
    assert_eq!(json!(asked.clean_steps), steps);
    assert_eq!(asked.disable_ramdisk, Some(false));
    let traits = format!("/v1/runbooks/{UUID}/traits/CUSTOM_GOLD");
    api.call("latest", "PUT", &traits, Value::Null).await;
    let service = json!({"target": "service", "runbook": UUID});
    assert_eq!(ask("latest", service).await.status, 202);
    let asked = api.conductor.last_request().unwrap();
    assert_eq!(json!(asked.service_steps), steps);
    for (version, body, status) in [
        ("1.91", clean("CUSTOM_GOLD"), 406),
        ("latest", clean("nope"), 404),
        ("latest", json!({"target": "active", "runbook": UUID}), 400),
        (
            "latest",
            json!({"target": "clean", "runbook": UUID, "clean_steps": [step(1, "x")]}),
            400,
        ),
    ] {
        let answer = ask(version, body.clone()).await;
        assert_eq!(answer.status, status, "{body}");
    }
}
