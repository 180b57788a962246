//! Allocations over HTTP. Keys and texts are those of a real Ironic.

use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_store::Allocation;
use wrought_wire::state::AllocationState;

use crate::support::Api;
use crate::support::N1;
use crate::support::N2;

/// Every key of an allocation, as 1.60 and later show it.
const KEYS: [&str; 13] = [
    "candidate_nodes",
    "created_at",
    "extra",
    "last_error",
    "links",
    "name",
    "node_uuid",
    "owner",
    "resource_class",
    "state",
    "traits",
    "updated_at",
    "uuid",
];

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

async fn with_rows() -> Api {
    let api = Api::open().await;
    let mut failed = Allocation {
        name: Some("alloc2".to_owned()),
        state: AllocationState::Error,
        resource_class: Some("nosuch".to_owned()),
        owner: Some("p".to_owned()),
        ..Allocation::default()
    };
    failed.last_error = Some(format!(
        "Failed to process allocation {}: no available nodes match the resource class nosuch.",
        failed.uuid
    ));
    let active = Allocation {
        name: Some("alloc1".to_owned()),
        state: AllocationState::Active,
        resource_class: Some("baremetal".to_owned()),
        traits: vec!["CUSTOM_GOLD".to_owned()],
        node_uuid: N1.parse().ok(),
        ..Allocation::default()
    };
    for allocation in [active, failed] {
        api.store.insert(&allocation).await.unwrap();
    }
    api
}

#[tokio::test]
async fn created_shown_changed_and_deleted() {
    let api = Api::open().await;
    let body = json!({"name": "alloc1", "resource_class": "baremetal", "traits": ["CUSTOM_GOLD"]});
    let made = api.call("latest", "POST", "/v1/allocations", body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let shown = made.json();
    assert_eq!(keys(&shown), KEYS);
    let uuid = shown["uuid"].as_str().unwrap().to_owned();
    assert_eq!(
        made.headers["location"],
        format!("http://api.test/v1/allocations/{uuid}")
    );
    for (key, value) in [
        ("state", json!("allocating")),
        ("node_uuid", Value::Null),
        ("candidate_nodes", json!([])),
        ("extra", json!({})),
        ("last_error", Value::Null),
        ("owner", Value::Null),
        ("updated_at", Value::Null),
        ("traits", json!(["CUSTOM_GOLD"])),
    ] {
        assert_eq!(shown[key], value, "{key}");
    }
    assert_eq!(
        shown["links"][1],
        json!({"href": format!("http://api.test/allocations/{uuid}"), "rel": "bookmark"})
    );
    let patch = json!([{"op": "add", "path": "/extra/k", "value": "v"}]);
    let changed = api
        .call("latest", "PATCH", "/v1/allocations/alloc1", patch)
        .await
        .json();
    assert_eq!(changed["extra"], json!({"k": "v"}));
    assert!(changed["updated_at"].is_string());
    let renamed = json!([{"op": "replace", "path": "/name", "value": "other"}]);
    api.call("1.57", "PATCH", &format!("/v1/allocations/{uuid}"), renamed)
        .await;
    assert_eq!(api.get("/v1/allocations/alloc1").await.status, 404);
    assert_eq!(api.get("/v1/allocations/other").await.json()["uuid"], uuid);
    let gone = api
        .call("latest", "DELETE", "/v1/allocations/other", Value::Null)
        .await;
    assert_eq!((gone.status, gone.text.as_str()), (204, ""));
    assert_eq!(
        api.get(&format!("/v1/allocations/{uuid}")).await.status,
        404
    );
}

#[tokio::test]
async fn what_is_wrong_with_a_request() {
    let api = with_rows().await;
    for (body, status, text) in [
        (json!({}), 400, "resource_class"),
        (json!({"resource_class": "x", "bogus": 1}), 400, "bogus"),
        (
            json!({"resource_class": "x", "state": "active"}),
            400,
            "state",
        ),
        (
            json!({"resource_class": "x", "traits": ["gold"]}),
            400,
            "gold",
        ),
        (
            json!({"resource_class": "x", "traits": "CUSTOM_X"}),
            400,
            "traits",
        ),
        (json!({"resource_class": "x", "name": "a b"}), 400, "a b"),
        (
            json!({"resource_class": "x", "name": "alloc1"}),
            409,
            "alloc1",
        ),
        (
            json!({"resource_class": "x", "candidate_nodes": ["nobody"]}),
            400,
            "nobody",
        ),
        (
            json!({"resource_class": "x".repeat(81)}),
            400,
            "resource_class",
        ),
        (json!({"node": "nobody"}), 400, "nobody"),
        (json!({"resource_class": "x", "uuid": "zzz"}), 400, "zzz"),
    ] {
        let answer = api
            .call("latest", "POST", "/v1/allocations", body.clone())
            .await;
        assert_eq!(answer.status, status, "{body} {}", answer.text);
        assert!(answer.fault().contains(text), "{}", answer.fault());
    }
    for (patch, status) in [
        (
            json!([{"op": "replace", "path": "/resource_class", "value": "y"}]),
            400,
        ),
        (
            json!([{"op": "replace", "path": "/node_uuid", "value": N2}]),
            400,
        ),
        (
            json!([{"op": "replace", "path": "/name", "value": "alloc1"}]),
            409,
        ),
        (json!({"name": "x"}), 400),
    ] {
        let answer = api
            .call("latest", "PATCH", "/v1/allocations/alloc2", patch.clone())
            .await;
        assert_eq!(answer.status, status, "{patch} {}", answer.text);
    }
}

#[tokio::test]
async fn candidates_by_name_become_uuids() {
    let api = Api::open().await;
    let body = json!({"resource_class": "x", "candidate_nodes": ["node-1", N2]});
    let made = api
        .call("latest", "POST", "/v1/allocations", body)
        .await
        .json();
    assert_eq!(made["candidate_nodes"], json!([N1, N2]));
}

#[tokio::test]
async fn lists_and_filters() {
    let api = with_rows().await;
    let names = async |query: &str| {
        let body = api.get(&format!("/v1/allocations{query}")).await.json();
        let list = body["allocations"].as_array().unwrap().clone();
        assert!(
            list.iter().all(|one| keys(one) == KEYS),
            "all fields are shown"
        );
        list.iter()
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let elsewhere = format!("?node={N2}");
    for (query, expected) in [
        ("", vec!["alloc1", "alloc2"]),
        ("?node=node-1", vec!["alloc1"]),
        (elsewhere.as_str(), vec![]),
        ("?resource_class=nosuch", vec!["alloc2"]),
        ("?state=active", vec!["alloc1"]),
        ("?state=bogus", vec![]),
        ("?owner=p", vec!["alloc2"]),
        ("?sort_key=name&sort_dir=desc", vec!["alloc2", "alloc1"]),
        ("?limit=1", vec!["alloc1"]),
    ] {
        assert_eq!(names(query).await, expected, "{query}");
    }
    let page = api.get("/v1/allocations?limit=1").await.json();
    assert!(page["next"].as_str().unwrap().contains("marker="));
    let some = api.get("/v1/allocations?fields=name,state").await.json();
    assert_eq!(keys(&some["allocations"][0]), ["links", "name", "state"]);
    for bad in [
        "node=nobody",
        "bogus=1",
        "fields=bogus",
        "detail=true",
        "sort_key=traits",
    ] {
        let answer = api.get(&format!("/v1/allocations?{bad}")).await;
        assert_eq!(answer.status, 400, "{bad} {}", answer.text);
    }
}

#[tokio::test]
async fn below_a_node() {
    let api = with_rows().await;
    let path = "/v1/nodes/node-1/allocation";
    assert_eq!(api.get(path).await.json()["name"], "alloc1");
    let node = api.get("/v1/nodes/node-1").await.json();
    assert_eq!(node["allocation_uuid"], api.get(path).await.json()["uuid"]);
    let none = api.get(&format!("/v1/nodes/{N2}/allocation")).await;
    assert_eq!(none.status, 404, "{}", none.text);
    assert_eq!(
        api.call("latest", "DELETE", path, Value::Null).await.status,
        204
    );
    assert_eq!(api.get(path).await.status, 404);
    assert_eq!(
        api.get("/v1/nodes/node-1").await.json()["allocation_uuid"],
        Value::Null
    );
}

#[tokio::test]
async fn versions() {
    let api = with_rows().await;
    let wanted = json!({"resource_class": "x"});
    let patch = json!([{"op": "add", "path": "/extra/k", "value": "v"}]);
    for (version, method, path, body, status) in [
        ("1.51", "GET", "/v1/allocations", Value::Null, 404),
        ("1.51", "GET", "/v1/allocations/alloc1", Value::Null, 404),
        (
            "1.51",
            "GET",
            "/v1/nodes/node-1/allocation",
            Value::Null,
            404,
        ),
        ("1.51", "POST", "/v1/allocations", wanted.clone(), 405),
        ("1.51", "DELETE", "/v1/allocations/alloc2", Value::Null, 405),
        (
            "1.56",
            "PATCH",
            "/v1/allocations/alloc2",
            patch.clone(),
            405,
        ),
        ("1.57", "PATCH", "/v1/allocations/alloc2", patch, 200),
        ("1.57", "POST", "/v1/allocations", json!({"node": N1}), 406),
        (
            "1.59",
            "POST",
            "/v1/allocations",
            json!({"resource_class": "x", "owner": "p"}),
            406,
        ),
        ("1.59", "GET", "/v1/allocations?owner=p", Value::Null, 406),
        (
            "1.59",
            "GET",
            "/v1/allocations?fields=owner",
            Value::Null,
            406,
        ),
        ("1.52", "POST", "/v1/allocations", wanted, 201),
    ] {
        let answer = api.call(version, method, path, body).await;
        assert_eq!(
            answer.status, status,
            "{version} {method} {path} {}",
            answer.text
        );
    }
    let old = api
        .call("1.59", "GET", "/v1/allocations", Value::Null)
        .await
        .json();
    assert!(old["allocations"][0].get("owner").is_none());
    let old = api
        .call("1.59", "GET", "/v1/allocations/alloc2", Value::Null)
        .await
        .json();
    assert!(old.get("owner").is_none());
}

#[tokio::test]
async fn a_backfilled_one_takes_the_instance_of_its_node() {
    let api = Api::new("active", wrought_api::Auth::none()).await;
    let instance = api.get("/v1/nodes/node-1").await.json()["instance_uuid"].clone();
    let made = api
        .call(
            "latest",
            "POST",
            "/v1/allocations",
            json!({"node": "node-1"}),
        )
        .await;
    assert_eq!(made.json()["uuid"], instance, "{}", made.text);
    assert_eq!(made.json()["node_uuid"], N1);
    let own = Uuid::new_v4();
    let other = api
        .call(
            "latest",
            "POST",
            "/v1/allocations",
            json!({"node": N2, "uuid": own}),
        )
        .await;
    assert_eq!(other.json()["uuid"], json!(own));
}
