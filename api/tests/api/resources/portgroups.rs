//! Portgroups, and ports in them.

use serde_json::Value;
use serde_json::json;

use super::BASE;
use super::links;
use super::timeless;
use crate::support::Api;
use crate::support::N1;
use crate::support::N2;

const UUID: &str = "dddddddd-0000-4000-8000-000000000001";
/// The port of the first node.
const PORT: &str = "/v1/ports/cccccccc-0000-4000-8000-000000000001";

async fn with_one() -> Api {
    let api = Api::open().await;
    let body = json!({"uuid": UUID, "node_uuid": N1, "name": "pg1",
        "address": "52:54:00:AA:BB:01", "mode": "802.3ad", "properties": {"miimon": 100}});
    let made = api.post("/v1/portgroups", body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let location = format!("{BASE}/v1/portgroups/{UUID}");
    assert_eq!(made.headers["location"], location);
    assert_eq!(timeless(made.json()), whole());
    api
}

fn whole() -> Value {
    let path = format!("portgroups/{UUID}");
    json!({"uuid": UUID, "created_at": "set", "updated_at": null,
        "address": "52:54:00:aa:bb:01", "extra": {}, "internal_info": {}, "mode": "802.3ad",
        "name": "pg1", "properties": {"miimon": 100}, "standalone_ports_supported": true,
        "node_uuid": N1, "physical_network": null, "category": null, "dynamic_portgroup": false,
        "links": links(&path), "ports": links(&format!("{path}/ports"))})
}

#[tokio::test]
async fn made_shown_changed_and_deleted() {
    let api = with_one().await;
    let brief = json!({"uuid": UUID, "address": "52:54:00:aa:bb:01", "name": "pg1",
        "links": links(&format!("portgroups/{UUID}"))});
    for list in [
        "/v1/portgroups".to_owned(),
        format!("/v1/nodes/{N1}/portgroups"),
        format!("/v1/portgroups?node={N1}"),
        "/v1/portgroups?address=52:54:00:aa:bb:01".to_owned(),
    ] {
        let body = api.get(&list).await.json();
        assert_eq!(body, json!({"portgroups": [brief]}), "{list}");
    }
    for list in [
        "/v1/portgroups/detail".to_owned(),
        "/v1/portgroups?detail=true".to_owned(),
        format!("/v1/nodes/{N1}/portgroups/detail"),
    ] {
        let body = api.get(&list).await.json();
        assert_eq!(timeless(body["portgroups"][0].clone()), whole(), "{list}");
    }
    for list in [
        format!("/v1/nodes/{N2}/portgroups"),
        format!("/v1/portgroups?node={N2}"),
        "/v1/portgroups?shard=s".to_owned(),
    ] {
        let body = api.get(&list).await.json();
        assert_eq!(body, json!({"portgroups": []}), "{list}");
    }
    let named = api.get("/v1/portgroups/pg1").await.json();
    assert_eq!(timeless(named), whole());
    let patch = json!([{"op": "remove", "path": "/mode"}]);
    assert_eq!(api.patch("/v1/portgroups/pg1", patch).await.status, 400);
    let patch = json!([{"op": "replace", "path": "/mode", "value": "active-backup"},
        {"op": "replace", "path": "/name", "value": "bond0"}]);
    let changed = api.patch("/v1/portgroups/pg1", patch).await.json();
    assert_eq!(
        (&changed["mode"], &changed["name"]),
        (&json!("active-backup"), &json!("bond0"))
    );
    assert_eq!(
        api.delete(&format!("/v1/portgroups/{UUID}")).await.status,
        204
    );
    assert_eq!(api.get("/v1/portgroups/bond0").await.status, 404);
}

#[tokio::test]
async fn what_is_no_portgroup() {
    let api = with_one().await;
    for (bad, status) in [
        (json!({"name": "x"}), 400),
        (json!({"node_uuid": UUID}), 400),
        (json!({"node_uuid": "node-1"}), 400),
        (json!({"node_uuid": N1, "name": "bad name!"}), 400),
        (json!({"node_uuid": N1, "address": "zz"}), 400),
        (
            json!({"node_uuid": N1, "address": "52-54-00-aa-bb-02"}),
            400,
        ),
        (json!({"node_uuid": N1, "internal_info": {}}), 400),
        (json!({"node_uuid": N1, "name": "pg1"}), 409),
        (
            json!({"node_uuid": N2, "address": "52:54:00:aa:bb:01"}),
            409,
        ),
    ] {
        let answer = api.post("/v1/portgroups", bad.clone()).await;
        assert_eq!(answer.status, status, "{bad}");
    }
    let plain = json!({"node_uuid": N1, "mode": null});
    let plain = api.post("/v1/portgroups", plain).await.json();
    assert_eq!(plain["mode"], "active-backup");
    let moved = json!([{"op": "replace", "path": "/node_uuid", "value": N2}]);
    let moved = api.patch("/v1/portgroups/pg1", moved).await;
    assert_eq!(
        (moved.status, &moved.json()["node_uuid"]),
        (200, &json!(N2))
    );
    let nowhere = json!([{"op": "remove", "path": "/node_uuid"}]);
    assert_eq!(api.patch("/v1/portgroups/pg1", nowhere).await.status, 400);
}

#[tokio::test]
async fn versions() {
    let api = with_one().await;
    let one = format!("/v1/portgroups/{UUID}");
    let nested = format!("/v1/nodes/{N1}/portgroups");
    let ports = format!("{one}/ports");
    let requests = [
        ("GET", "/v1/portgroups", 404),
        ("POST", "/v1/portgroups", 404),
        ("GET", &one, 404),
        ("PATCH", &one, 404),
        ("DELETE", &one, 404),
        ("GET", &nested, 404),
    ];
    api.statuses("1.22", &requests).await;
    let requests = [
        ("GET", "/v1/portgroups", 200),
        ("GET", &nested, 404),
        ("GET", &ports, 404),
        ("GET", "/v1/portgroups?conductor_groups=x", 200),
        ("GET", "/v1/portgroups?detail=true", 400),
        ("GET", "/v1/portgroups?shard=x", 406),
        ("GET", "/v1/portgroups?fields=mode", 406),
    ];
    api.statuses("1.23", &requests).await;
    api.statuses("1.24", &[("GET", &nested, 200), ("GET", &ports, 200)])
        .await;
    for (version, field) in [
        ("1.25", "mode"),
        ("1.101", "physical_network"),
        ("1.102", "category"),
        ("1.110", "dynamic_portgroup"),
    ] {
        let shown = api.call(version, "GET", &one, Value::Null).await.json();
        assert_eq!(shown.get(field), None, "{version}");
    }
    let patch = json!([{"op": "add", "path": "/category", "value": "x"}]);
    assert_eq!(api.call("1.102", "PATCH", &one, patch).await.status, 406);
}

#[tokio::test]
async fn ports_in_a_portgroup() {
    let api = with_one().await;
    let ports = format!("/v1/portgroups/{UUID}/ports");
    assert_eq!(api.get(&ports).await.json(), json!({"ports": []}));
    let set = |field: &str, value: Value| json!([{"op": "add", "path": format!("/{field}"), "value": value}]);
    let unknown = set("portgroup_uuid", json!(N1));
    assert_eq!(api.patch(PORT, unknown).await.status, 400);
    let joined = api.patch(PORT, set("portgroup_uuid", json!(UUID))).await;
    assert_eq!(joined.status, 200, "{}", joined.text);
    assert_eq!(joined.json()["portgroup_uuid"], UUID);
    let old = api.call("1.23", "GET", PORT, Value::Null).await.json();
    assert_eq!(old.get("portgroup_uuid"), None);
    for list in [
        ports.as_str(),
        "/v1/portgroups/pg1/ports/detail",
        "/v1/ports?portgroup=pg1",
    ] {
        let body = api.get(list).await.json();
        assert_eq!(body["ports"].as_array().unwrap().len(), 1, "{list}");
    }
    assert_eq!(api.get("/v1/ports?portgroup=nope").await.status, 404);
    // From 1.102 on the physical network is the group's.
    let network = set("physical_network", json!("physnet"));
    assert_eq!(api.patch(PORT, network.clone()).await.status, 400);
    let same = set("physical_network", Value::Null);
    assert_eq!(api.patch(PORT, same).await.status, 400);
    assert_eq!(api.call("1.101", "PATCH", PORT, network).await.status, 200);
    let loose = set("available_for_dynamic_portgroup", json!(false));
    let loose = api.patch(PORT, loose).await.json();
    assert_eq!(loose["available_for_dynamic_portgroup"], false);
    assert_eq!(
        api.delete(&format!("/v1/portgroups/{UUID}")).await.status,
        400
    );
    let left = json!([{"op": "remove", "path": "/portgroup_uuid"}]);
    assert_eq!(
        api.patch(PORT, left).await.json()["portgroup_uuid"],
        Value::Null
    );
    assert_eq!(
        api.delete(&format!("/v1/portgroups/{UUID}")).await.status,
        204
    );
}

#[tokio::test]
async fn below_others_there_are_lists_only() {
    let api = with_one().await;
    let node = format!("/v1/nodes/{N1}");
    for path in [
        format!("{node}/ports"),
        format!("{node}/ports/{UUID}"),
        format!("{node}/portgroups"),
        format!("{node}/portgroups/{UUID}"),
        format!("{node}/volume/targets"),
        format!("{node}/volume/connectors/{UUID}"),
        format!("/v1/portgroups/{UUID}/ports"),
    ] {
        for method in ["POST", "PATCH", "DELETE"] {
            let answer = api.call("latest", method, &path, json!({})).await;
            assert_eq!(answer.status, 400, "{method} {path}");
        }
    }
}
