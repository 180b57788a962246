//! Chassis.

use serde_json::json;

use super::BASE;
use super::links;
use super::timeless;
use crate::support::Api;
use crate::support::N1;

const UUID: &str = "11111111-2222-4333-8444-555555555555";

#[tokio::test]
async fn made_shown_changed_and_deleted() {
    let api = Api::open().await;
    let body = json!({"uuid": UUID, "description": "rack1", "extra": {"k": 1}});
    let made = api.post("/v1/chassis", body).await;
    let path = format!("chassis/{UUID}");
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(made.headers["location"], format!("{BASE}/v1/{path}"));
    let mut whole = json!({"uuid": UUID, "created_at": "set", "updated_at": null,
        "description": "rack1", "extra": {"k": 1}, "links": links(&path),
        "nodes": [links(&format!("{path}/nodes"))]});
    assert_eq!(timeless(made.json()), whole);
    let shown = api.get(&format!("/v1/{path}")).await.json();
    assert_eq!(timeless(shown), whole);
    let brief = json!({"uuid": UUID, "description": "rack1", "links": links(&path)});
    let list = api.get("/v1/chassis").await.json();
    assert_eq!(list, json!({"chassis": [brief]}));
    let list = api.get("/v1/chassis/detail").await.json();
    assert_eq!(timeless(list["chassis"][0].clone()), whole);
    let patch = json!([{"op": "replace", "path": "/description", "value": "rack2"}]);
    let changed = api.patch(&format!("/v1/{path}"), patch).await.json();
    whole["description"] = json!("rack2");
    whole["updated_at"] = json!("set");
    assert_eq!(timeless(changed), whole);
    assert_eq!(api.delete(&format!("/v1/{path}")).await.status, 204);
    assert_eq!(api.get(&format!("/v1/{path}")).await.status, 404);
    assert_eq!(api.get("/v1/chassis/rack1").await.status, 400);
}

#[tokio::test]
async fn nodes_of_a_chassis() {
    let api = Api::open().await;
    let first = api.post("/v1/chassis", json!({})).await.json();
    let first = first["uuid"].as_str().unwrap().to_owned();
    let nodes = format!("/v1/chassis/{first}/nodes");
    assert_eq!(api.get(&nodes).await.json(), json!({"nodes": []}));
    let node = format!("/v1/nodes/{N1}");
    let set = |uuid: &str| json!([{"op": "add", "path": "/chassis_uuid", "value": uuid}]);
    assert_eq!(api.patch(&node, set(UUID)).await.status, 400);
    let changed = api.patch(&node, set(&first)).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    assert_eq!(changed.json()["chassis_uuid"], json!(first));
    for (path, detail) in [("", false), ("/detail", true)] {
        let list = api.get(&format!("{nodes}{path}")).await.json();
        assert_eq!(list["nodes"].as_array().unwrap().len(), 1, "{path}");
        assert_eq!(list["nodes"][0]["uuid"], N1);
        assert_eq!(list["nodes"][0].get("driver").is_some(), detail);
    }
    let page = api.get(&format!("{nodes}?limit=1")).await.json();
    let next = page["next"].as_str().unwrap();
    assert!(next.starts_with(&format!("{BASE}{nodes}?")), "{next}");
    let missing = format!("/v1/chassis/{UUID}/nodes");
    assert_eq!(api.get(&missing).await.status, 404);
}

#[tokio::test]
async fn what_is_no_chassis() {
    let api = Api::open().await;
    for bad in [
        json!({"description": "x".repeat(256)}),
        json!({"description": 1}),
        json!({"extra": []}),
        json!({"name": "x"}),
        json!([]),
    ] {
        assert_eq!(
            api.post("/v1/chassis", bad.clone()).await.status,
            400,
            "{bad}"
        );
    }
}
