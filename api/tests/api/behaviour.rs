//! What shapes alone do not show: paging, versions, secrets, bounds, access.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_api::Auth;

use crate::support::A;
use crate::support::Api;
use crate::support::N1;
use crate::support::N2;

#[tokio::test]
async fn pages_follow_each_other_to_an_end() {
    let api = Api::open().await;
    let mut path = "/v1/nodes?limit=1&sort_key=name&sort_dir=desc&maintenance=false".to_owned();
    let mut seen = Vec::new();
    loop {
        let body = api.get(&path).await.json();
        for node in body["nodes"].as_array().unwrap() {
            seen.push(node["uuid"].as_str().unwrap().to_owned());
        }
        match body["next"].as_str() {
            Some(next) => path = next.strip_prefix("http://api.test").unwrap().to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, [A, N1, N2]);
    let bad = [
        "limit=0",
        "limit=x",
        "sort_dir=up",
        "sort_key=driver_info",
        "sort_key=bogus",
        "marker=x",
    ];
    for query in bad {
        assert_eq!(
            api.get(&format!("/v1/nodes?{query}")).await.status,
            400,
            "{query}"
        );
    }
    let none = "00000000-0000-4000-8000-000000000000";
    assert_eq!(
        api.get(&format!("/v1/nodes?marker={none}")).await.status,
        404
    );
    let full = api.get("/v1/nodes/detail?limit=2").await.json();
    assert!(full["next"].as_str().unwrap().contains("/v1/nodes/detail?"));
}

#[tokio::test]
async fn filters() {
    let api = Api::open().await;
    let count = |body: Value| body["nodes"].as_array().unwrap().len();
    for (query, expected) in [
        ("", 3),
        ("?include_children=true", 4),
        ("?provision_state=available", 1),
        ("?associated=true", 0),
        ("?conductor=conductor-1", 3),
        ("?conductor=other", 0),
        ("?driver=redfish", 0),
        ("?sharded=false&owner=x", 0),
    ] {
        assert_eq!(
            count(api.get(&format!("/v1/nodes{query}")).await.json()),
            expected,
            "{query}"
        );
    }
    for query in [
        "provision_state=x",
        "maintenance=x",
        "fault=x",
        "instance_uuid=x",
    ] {
        assert_eq!(
            api.get(&format!("/v1/nodes?{query}")).await.status,
            400,
            "{query}"
        );
    }
    let node = format!("/v1/ports?node={N1}");
    assert_eq!(
        api.get(&node).await.json()["ports"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(api.get(&format!("{node}&shard=x")).await.status, 403);
    assert_eq!(
        api.get(&format!("{node}&conductor_groups=x")).await.status,
        400
    );
}

#[tokio::test]
async fn versions_gate_fields_arguments_and_endpoints() {
    let api = Api::open().await;
    let at = |version: &'static str, path: String| {
        let api = &api;
        async move { api.call(version, "GET", &path, Value::Null).await }
    };
    assert_eq!(
        at("1.7", "/v1/nodes?fields=uuid".to_owned()).await.status,
        406
    );
    assert_eq!(
        at("1.8", "/v1/nodes?fields=owner".to_owned()).await.status,
        406
    );
    assert_eq!(at("1.48", "/v1/conductors".to_owned()).await.status, 404);
    assert_eq!(
        at("1.21", "/v1/lookup?addresses=52:54:00:00:aa:02".to_owned())
            .await
            .status,
        404
    );
    let old = at("1.1", format!("/v1/nodes/{N2}")).await;
    assert_eq!(old.json()["provision_state"], Value::Null);
    let old = at("1.38", format!("/v1/nodes/{A}")).await;
    assert_eq!(old.json()["provision_state"], "inspecting");
    let new = at("1.107", "/v1/nodes".to_owned()).await;
    assert_eq!(new.headers["x-openstack-ironic-api-version"], "1.107");
    assert!(new.headers.contains_key("x-openstack-request-id"));
    let made = api
        .call("1.10", "POST", "/v1/nodes", json!({"driver": "redfish"}))
        .await
        .json();
    assert_eq!(made["provision_state"], "available");
    for (version, body, status) in [
        ("1.3", json!({"target": "manage"}), 406),
        ("1.55", json!({"target": "active", "configdrive": {}}), 400),
        ("1.68", json!({"target": "active", "deploy_steps": []}), 406),
        ("latest", json!({"target": "nonsense"}), 400),
        (
            "latest",
            json!({"target": "provide", "configdrive": "x"}),
            400,
        ),
        (
            "latest",
            json!({"target": "rescue", "rescue_password": " "}),
            400,
        ),
        ("latest", json!({"target": "active", "bogus": 1}), 400),
    ] {
        let path = format!("/v1/nodes/{N1}/states/provision");
        assert_eq!(
            api.call(version, "PUT", &path, body.clone()).await.status,
            status,
            "{body}"
        );
    }
}

#[tokio::test]
async fn secrets_are_neither_shown_nor_lost() {
    let api = Api::open().await;
    let patch = json!([{"op": "add", "path": "/driver_info",
        "value": {"ipmi_password": "******", "ipmi_address": "192.0.2.1"}}]);
    let shown = api.call("latest", "PATCH", "/v1/nodes/node-1", patch).await;
    assert_eq!(shown.status, 200, "{}", shown.text);
    assert!(!shown.text.contains("sekret"));
    assert_eq!(shown.json()["driver_info"]["ipmi_password"], "******");
    let stored = api.store.node("node-1").await.unwrap().unwrap();
    assert_eq!(stored.driver_info["ipmi_password"], "sekret");
    assert_eq!(stored.driver_info.len(), 2);
}

#[tokio::test]
async fn lookup_by_all_spellings() {
    let api = Api::open().await;
    for query in [
        "addresses=52:54:00:00:aa:02".to_owned(),
        "addresses=junk&addresses=52-54-00-00-AA-02".to_owned(),
        "addresses=52:54:00:00:aa:09,52:54:00:00:aa:02".to_owned(),
        format!("node_uuid={A}&addresses=52:54:00:12:34:56"),
    ] {
        let answer = api.get(&format!("/v1/lookup?{query}")).await;
        assert_eq!(
            (answer.status, &answer.json()["node"]["uuid"]),
            (200, &json!(A)),
            "{query}"
        );
        assert_eq!(answer.json()["config"]["agent_token"], "fresh");
        assert!(!answer.text.contains("known"));
    }
    let old = api
        .call(
            "1.61",
            "GET",
            &format!("/v1/lookup?node_uuid={A}"),
            Value::Null,
        )
        .await;
    assert_eq!(old.json()["config"]["agent_token"], "******");
    for (query, status) in [
        (format!("node_uuid={N1}"), 404),
        (
            "addresses=52:54:00:12:34:56,52:54:00:00:aa:02".to_owned(),
            404,
        ),
        ("addresses=junk".to_owned(), 400),
    ] {
        assert_eq!(
            api.get(&format!("/v1/lookup?{query}")).await.status,
            status,
            "{query}"
        );
    }
}

#[tokio::test]
async fn heartbeats_are_checked_in_order() {
    let api = Api::open().await;
    let good =
        json!({"callback_url": "https://192.0.2.7:9999", "agent_token": "t", "version": "1"});
    let with = |key: &str, value: Value| {
        let mut body = good.clone();
        body[key] = value;
        body
    };
    let path = format!("/v1/heartbeat/{A}");
    for (version, path, body, status) in [
        ("latest", path.as_str(), good.clone(), 202),
        (
            "latest",
            "/v1/heartbeat/nope",
            with("callback_url", json!("ftp://x")),
            404,
        ),
        (
            "latest",
            path.as_str(),
            with("callback_url", json!("ftp://x")),
            400,
        ),
        (
            "latest",
            path.as_str(),
            json!({"callback_url": "https://192.0.2.7:9999"}),
            400,
        ),
        ("latest", path.as_str(), json!({"agent_token": "t"}), 400),
        (
            "latest",
            path.as_str(),
            with("agent_status", json!("odd")),
            400,
        ),
        ("latest", path.as_str(), with("bogus", json!(1)), 400),
        (
            "1.67",
            path.as_str(),
            with("agent_verify_ca", json!("pem")),
            400,
        ),
        ("1.21", path.as_str(), good.clone(), 404),
    ] {
        let answer = api.call(version, "POST", path, body.clone()).await;
        assert_eq!(
            answer.status, status,
            "{version} {path} {body}: {}",
            answer.text
        );
    }
}

#[tokio::test]
async fn bodies_and_methods_are_bounded() {
    let api = Api::open().await;
    let raw = |text: String| {
        let request = Request::builder()
            .method("POST")
            .uri("/v1/nodes")
            .body(Body::from(text));
        api.send(request.unwrap())
    };
    assert_eq!(raw("{".to_owned()).await.status, 400);
    assert_eq!(raw("[]".to_owned()).await.status, 400);
    assert_eq!(raw(String::new()).await.status, 400);
    assert_eq!(raw("[".repeat(30) + &"]".repeat(30)).await.status, 400);
    let large = raw(" ".repeat((1 << 20) + 1)).await;
    assert_eq!(
        (large.status, &large.json()["faultcode"]),
        (413, &json!("Client"))
    );
    let config = json!({"target": "active", "configdrive": "x".repeat(2 << 20)});
    let path = format!("/v1/nodes/{N2}/states/provision");
    assert_eq!(api.call("latest", "PUT", &path, config).await.status, 202);
    let refused = api
        .call("latest", "PUT", "/v1/nodes/node-1/states", Value::Null)
        .await;
    assert_eq!(refused.status, 405);
    assert!(refused.headers.contains_key("allow"));
    assert!(api.get("/things/").await.fault().contains("/v1/things"));
    let head = api.call("latest", "HEAD", "/v1/nodes", Value::Null).await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
    for path in ["/nodes/", "/v1/nodes/", "/nodes"] {
        assert_eq!(
            api.get(path).await.json()["nodes"]
                .as_array()
                .unwrap()
                .len(),
            3,
            "{path}"
        );
    }
}

#[tokio::test]
async fn health_and_readiness_for_everybody() {
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("users");
    std::fs::write(&users, "").unwrap();
    let api = Api::new("nodes", Auth::basic(&users, None).unwrap()).await;
    assert_eq!(api.get("/v1/nodes").await.status, 401);
    for path in ["/healthcheck", "/readiness"] {
        assert_eq!(api.get(path).await.status, 200, "{path}");
    }
    // No conductor: the service lives and cannot do what it is asked.
    let instance = api.store.conductors().await.unwrap()[0].instance;
    let left = api.store.unregister_conductor("conductor-1", instance);
    left.await.unwrap();
    assert_eq!(api.get("/healthcheck").await.status, 200);
    let answer = api.get("/readiness").await;
    assert_eq!(answer.status, 503);
    assert!(answer.fault().contains("1 conductors"), "{}", answer.text);
    // No database either.
    api.store.close().await;
    for path in ["/healthcheck", "/readiness"] {
        assert_eq!(api.get(path).await.status, 503, "{path}");
    }
}

#[tokio::test]
async fn a_reader_reads() {
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("users");
    let line = |user: &str| format!("{user}:{}\n", bcrypt::hash("pw", 4).unwrap());
    std::fs::write(&users, line("admin") + &line("ro")).unwrap();
    std::fs::write(dir.path().join("users.roles"), "ro: reader\n").unwrap();
    let auth = Auth::from_setting(&format!("basic:{}", users.display())).unwrap();
    let api = Api::new("nodes", auth).await;
    for (user, method, status) in [
        ("ro", "GET", 200),
        ("ro", "DELETE", 403),
        ("admin", "DELETE", 204),
    ] {
        let token = STANDARD.encode(format!("{user}:pw"));
        let request = Request::builder()
            .method(method)
            .uri(format!("/v1/nodes/{N2}"))
            .header("authorization", format!("Basic {token}"));
        let answer = api.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, status, "{user} {method}: {}", answer.text);
    }
    assert_eq!(api.get("/v1/nodes").await.status, 401);
    assert_eq!(api.get("/v1/").await.status, 200);
    // The conductor knows who asks.
    let request = Request::builder()
        .method("PUT")
        .uri(format!("/v1/nodes/{N1}/states/provision"))
        .header(
            "authorization",
            format!("Basic {}", STANDARD.encode("admin:pw")),
        )
        .header("x-openstack-ironic-api-version", "latest");
    let body = Body::from(json!({"target": "manage"}).to_string());
    assert_eq!(api.send(request.body(body).unwrap()).await.status, 202);
    assert_eq!(api.conductor.last_caller().user.as_deref(), Some("admin"));
}

#[tokio::test]
async fn ports_are_checked() {
    let api = Api::open().await;
    let port = |more: Value| {
        let mut body = json!({"node_uuid": N1, "address": "52:54:00:AB:CD:EF"});
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        body
    };
    for (more, status) in [
        (json!({}), 201),
        (json!({}), 409),
        (json!({"bogus": 1}), 400),
        (
            json!({"address": "52:54:00:ab:cd:01", "physical_network": ""}),
            400,
        ),
        (
            json!({"address": "52:54:00:ab:cd:01", "is_smartnic": true}),
            400,
        ),
        (
            json!({"address": "52:54:00:ab:cd:01", "local_link_connection": {"x": "y"}}),
            400,
        ),
        (
            json!({"address": "52:54:00:ab:cd:01", "node_ident": "node-1"}),
            400,
        ),
    ] {
        let answer = api
            .call("latest", "POST", "/v1/ports", port(more.clone()))
            .await;
        assert_eq!(answer.status, status, "{more}: {}", answer.text);
        if status == 201 {
            assert_eq!(answer.json()["address"], "52:54:00:ab:cd:ef");
        }
    }
    let by_name = json!({"node_ident": "node-1", "address": "52:54:00:ab:cd:02"});
    assert_eq!(
        api.call("1.93", "POST", "/v1/ports", by_name.clone())
            .await
            .status,
        406
    );
    assert_eq!(
        api.call("1.94", "POST", "/v1/ports", by_name).await.status,
        201
    );
    let path = "/v1/ports/cccccccc-0000-4000-8000-000000000001";
    for (patch, status) in [
        (
            json!([{"op": "replace", "path": "/node_uuid", "value": Uuid::nil()}]),
            400,
        ),
        (
            json!([{"op": "replace", "path": "/uuid", "value": N2}]),
            400,
        ),
        (json!([{"op": "remove", "path": "/address"}]), 400),
        (
            json!([{"op": "replace", "path": "/pxe_enabled", "value": "False"}]),
            200,
        ),
    ] {
        let answer = api.call("latest", "PATCH", path, patch.clone()).await;
        assert_eq!(answer.status, status, "{patch}: {}", answer.text);
    }
    assert_eq!(api.get(path).await.json()["pxe_enabled"], false);
    assert_eq!(
        api.call("latest", "DELETE", "/v1/ports/name", Value::Null)
            .await
            .status,
        400
    );
}

#[tokio::test]
async fn changes_at_the_same_time_all_remain() {
    let api = std::sync::Arc::new(Api::open().await);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..30 {
        let api = std::sync::Arc::clone(&api);
        tasks.spawn(async move {
            let key = format!("k{number}");
            let (method, path, body) = if number % 3 == 0 {
                let path = format!("/v1/nodes/{A}/traits/CUSTOM_{number}");
                ("PUT", path, Body::empty())
            } else {
                let patch = json!([{"op": "add", "path": format!("/extra/{key}"), "value": 1}]);
                (
                    "PATCH",
                    format!("/v1/nodes/{A}"),
                    Body::from(patch.to_string()),
                )
            };
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header("X-OpenStack-Ironic-API-Version", "1.82");
            let answer = api.send(request.body(body).unwrap()).await;
            (number, answer.status)
        });
    }
    let answers = tasks.join_all().await;
    let node = api.store.node_by_uuid(A.parse().unwrap()).await;
    let node = node.unwrap().unwrap();
    let mut done = 0;
    for (number, status) in answers {
        if status == 409 {
            continue;
        }
        assert!(matches!(status, 200 | 204), "{number}: {status}");
        let kept = if number % 3 == 0 {
            node.traits.contains(&format!("CUSTOM_{number}"))
        } else {
            node.extra.contains_key(&format!("k{number}"))
        };
        assert!(kept, "{number} was answered with {status} and is lost");
        done += 1;
    }
    assert!(done > 0);
}

#[tokio::test]
async fn a_path_that_is_no_text_has_an_error_body() {
    let api = Api::open().await;
    let answer = api.get("/v1/nodes/%ff").await;
    assert_eq!(answer.status, 400);
    assert!(answer.fault().contains("UTF-8"), "{}", answer.text);
}

#[tokio::test]
async fn figures_for_prometheus() {
    let api = Api::open().await;
    for path in ["/metrics", "/metrics/"] {
        let answer = api.get(path).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let kind = &answer.headers["content-type"];
        assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
        assert_eq!(answer.text, "wrought_workers 64\n");
    }
}

/// It is stored as it was when the node was queued, and counted when it is
/// shown.
#[tokio::test]
async fn the_place_in_a_queue_is_the_present_one() {
    let api = Api::open().await;
    let (node, other): (Uuid, Uuid) = (A.parse().unwrap(), N1.parse().unwrap());
    for (second, node) in [(1, other), (2, node)] {
        let at = Timestamp::from_second(second).unwrap();
        api.store.enqueue(node, "clean", at).await.unwrap();
    }
    let lease = api
        .store
        .lock_node(node, "test", Duration::from_secs(60))
        .await
        .unwrap();
    let mut stored = api.store.node_by_uuid(node).await.unwrap().unwrap();
    let info = &mut stored.driver_internal_info;
    info.insert("queued_at".to_owned(), json!("2026-12-01T00:00:00Z"));
    info.insert("queue_position".to_owned(), json!(7));
    api.store.save_node(&lease, &mut stored).await.unwrap();
    for expected in [2, 1] {
        let one = api.get(&format!("/v1/nodes/{A}")).await.json();
        assert_eq!(one["driver_internal_info"]["queue_position"], expected);
        let list = api.get("/v1/nodes/detail").await.json();
        let nodes = list["nodes"].as_array().unwrap();
        let shown = nodes.iter().find(|shown| shown["uuid"] == A).unwrap();
        assert_eq!(shown["driver_internal_info"]["queue_position"], expected);
        api.store.dequeue(other).await.unwrap();
    }
}
