//! Volume connectors and targets.

use serde_json::Value;
use serde_json::json;

use super::BASE;
use super::links;
use super::timeless;
use crate::support::Api;
use crate::support::N1;
use crate::support::N2;

const TARGET: &str = "756eaeca-3802-43e8-8e8e-51aa84973a37";
const CONNECTOR: &str = "e0dedbc0-23eb-4055-a2d9-6f5f0650a2db";

fn target() -> Value {
    json!({"uuid": TARGET, "node_uuid": N1, "volume_type": "iscsi", "boot_index": 0,
        "volume_id": "v1", "properties": {}})
}

fn connector() -> Value {
    json!({"uuid": CONNECTOR, "node_uuid": N1, "type": "iqn",
        "connector_id": "iqn.2020-01.com.example:1"})
}

#[tokio::test]
async fn roots() {
    let api = Api::open().await;
    for path in ["volume".to_owned(), format!("nodes/{N1}/volume")] {
        let body = api.get(&format!("/v1/{path}")).await.json();
        let expected = json!({"links": links(&format!("{path}/")),
            "connectors": links(&format!("{path}/connectors")),
            "targets": links(&format!("{path}/targets"))});
        assert_eq!(body, expected);
    }
    let requests = [
        ("GET", "/v1/volume", 404),
        ("GET", "/v1/volume/targets", 404),
        ("POST", "/v1/volume/connectors", 404),
        ("GET", "/v1/nodes/node-1/volume", 404),
        ("GET", "/v1/nodes/node-1/volume/targets", 404),
    ];
    api.statuses("1.31", &requests).await;
    let requests = [
        ("GET", "/v1/volume/targets?detail=true", 200),
        ("GET", "/v1/nodes/node-1/volume/connectors", 200),
        ("GET", "/v1/volume/targets/nope", 400),
    ];
    api.statuses("1.32", &requests).await;
}

#[tokio::test]
async fn targets() {
    let api = Api::open().await;
    let made = api.post("/v1/volume/targets", target()).await;
    let path = format!("volume/targets/{TARGET}");
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(made.headers["location"], format!("{BASE}/v1/{path}"));
    let whole = json!({"uuid": TARGET, "created_at": "set", "updated_at": null, "boot_index": 0,
        "extra": {}, "properties": {}, "volume_id": "v1", "volume_type": "iscsi",
        "links": links(&path), "node_uuid": N1});
    assert_eq!(timeless(made.json()), whole);
    let brief = json!({"uuid": TARGET, "boot_index": 0, "volume_id": "v1",
        "volume_type": "iscsi", "links": links(&path), "node_uuid": N1});
    for list in [
        "/v1/volume/targets".to_owned(),
        format!("/v1/nodes/{N1}/volume/targets"),
        "/v1/volume/targets?node=node-1".to_owned(),
    ] {
        let body = api.get(&list).await.json();
        assert_eq!(body, json!({"targets": [brief]}), "{list}");
    }
    let none = api.get(&format!("/v1/nodes/{N2}/volume/targets")).await;
    assert_eq!(none.json(), json!({"targets": []}));
    let secret = json!([{"op": "add", "path": "/properties/auth_password", "value": "sesame"}]);
    let shown = api.patch(&format!("/v1/{path}"), secret).await;
    assert_eq!(shown.status, 200, "{}", shown.text);
    assert_eq!(
        shown.json()["properties"],
        json!({"auth_password": "******"})
    );
    let back = json!([{"op": "add", "path": "/properties",
        "value": {"auth_password": "******", "target_lun": 1}}]);
    api.patch(&format!("/v1/{path}"), back).await;
    let stored: wrought_store::VolumeTarget = api
        .store
        .row(TARGET.parse().unwrap())
        .await
        .unwrap()
        .unwrap();
    let kept = json!({"auth_password": "sesame", "target_lun": 1});
    assert_eq!(json!(stored.properties), kept);
    let mut second = target();
    second["uuid"] = Value::Null;
    assert_eq!(api.post("/v1/volume/targets", second).await.status, 409);
    assert_eq!(api.delete(&format!("/v1/{path}")).await.status, 204);
    assert_eq!(api.get(&format!("/v1/{path}")).await.status, 404);
}

#[tokio::test]
async fn connectors() {
    let api = Api::open().await;
    let made = api.post("/v1/volume/connectors", connector()).await;
    let path = format!("volume/connectors/{CONNECTOR}");
    assert_eq!(made.status, 201, "{}", made.text);
    let id = "iqn.2020-01.com.example:1";
    let whole = json!({"uuid": CONNECTOR, "created_at": "set", "updated_at": null,
        "connector_id": id, "extra": {}, "type": "iqn", "links": links(&path),
        "node_uuid": N1});
    assert_eq!(timeless(made.json()), whole);
    let brief = json!({"uuid": CONNECTOR, "connector_id": id, "type": "iqn",
        "links": links(&path), "node_uuid": N1});
    let list = api.get("/v1/volume/connectors").await.json();
    assert_eq!(list, json!({"connectors": [brief]}));
    for (key, value, status) in [
        ("uuid", Value::Null, 409),
        ("type", json!(1), 400),
        ("connector_id", Value::Null, 400),
        ("bogus", json!(1), 400),
    ] {
        let mut body = connector();
        body[key] = value;
        let answer = api.post("/v1/volume/connectors", body.clone()).await;
        assert_eq!(answer.status, status, "{body}");
    }
    let odd = json!({"node_uuid": N1, "type": "nothing", "connector_id": "x"});
    assert_eq!(api.post("/v1/volume/connectors", odd).await.status, 201);
    let stray = json!({"node_uuid": TARGET, "type": "mac", "connector_id": "x"});
    assert_eq!(api.post("/v1/volume/connectors", stray).await.status, 400);
    let patch = json!([{"op": "replace", "path": "/type", "value": "ip"}]);
    let changed = api.patch(&format!("/v1/{path}"), patch).await.json();
    assert_eq!(changed["type"], "ip");
    assert_eq!(api.delete(&format!("/v1/{path}")).await.status, 204);
}
