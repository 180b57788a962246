//! First versions, filters, drivers with their methods, conductors, events and
//! history: what a real Ironic answered.

use axum::body::Body;
use axum::http::Request;
use serde_json::Value;
use serde_json::json;
use wrought_api::Auth;

use crate::support::Api;
use crate::support::N1;
use crate::support::N2;
use crate::support::On;

fn node(api: &Api) -> On<'_> {
    On(api, format!("/v1/nodes/{N1}"))
}

/// Each below its first version is as if it were not there, and there from it
/// on. Fake answers of the conductor count as being there.
#[tokio::test]
async fn first_versions() {
    let api = Api::open().await;
    let node = node(&api);
    let none = Value::Null;
    for (method, path, first, body, below, from) in [
        ("GET", "/vifs", 28, none.clone(), 404, 200),
        ("POST", "/vifs", 28, json!({"id": "v"}), 404, 204),
        ("DELETE", "/vifs/v", 28, none.clone(), 404, 204),
        ("PUT", "/management/inject_nmi", 29, json!({}), 404, 400),
        ("GET", "/bios", 40, none.clone(), 404, 200),
        ("GET", "/bios/x", 40, none.clone(), 404, 404),
        ("PUT", "/states/raid", 12, json!({}), 406, 204),
        (
            "PUT",
            "/states/boot_mode",
            76,
            json!({"target": "uefi"}),
            404,
            202,
        ),
        (
            "PUT",
            "/states/secure_boot",
            76,
            json!({"target": true}),
            404,
            202,
        ),
        ("GET", "/firmware", 86, none.clone(), 404, 200),
        (
            "POST",
            "/vmedia",
            89,
            json!({"device_type": "cdrom", "image_url": "http://h/x"}),
            404,
            204,
        ),
        ("DELETE", "/vmedia", 89, none.clone(), 404, 204),
        ("GET", "/vmedia", 93, none.clone(), 404, 200),
    ] {
        let old = node
            .at(&format!("1.{}", first - 1), method, path, body.clone())
            .await;
        assert_eq!(old.status, below, "{method} {path} below 1.{first}");
        let new = node.at(&format!("1.{first}"), method, path, body).await;
        assert_eq!(
            new.status, from,
            "{method} {path} at 1.{first}: {}",
            new.text
        );
    }
    for version in ["1.1", "1.62"] {
        let list = node
            .at(version, "GET", "/management/indicators", Value::Null)
            .await;
        assert_eq!(list.status, 200, "{version}");
    }
    let events = json!({"events": []});
    for (version, status) in [("1.53", 404), ("1.54", 400)] {
        let sent = api
            .call(version, "POST", "/v1/events", events.clone())
            .await;
        assert_eq!(sent.status, status);
    }
    let raid = "/v1/drivers/fake-hardware/raid/logical_disk_properties";
    for (version, status) in [("1.11", 406), ("1.12", 200)] {
        assert_eq!(
            api.call(version, "GET", raid, Value::Null).await.status,
            status
        );
    }
}

#[tokio::test]
async fn vendor_methods_of_nodes_and_drivers() {
    let api = Api::open().await;
    let node = node(&api);
    let methods = node.get("/vendor_passthru/methods").await.json();
    let expected = json!({"second_method": {"http_methods": ["POST"], "async": true,
        "description": "Test if the value of bar is kazoo", "attach": false,
        "require_exclusive_lock": true}});
    assert_eq!(methods, expected);
    let bar = json!({"bar": "kazoo"});
    for path in [
        "/vendor_passthru?method=second_method",
        "/vendor_passthru/second_method",
    ] {
        let taken = node.ask("POST", path, bar.clone()).await;
        assert_eq!((taken.status, taken.text.as_str()), (202, ""), "{path}");
    }
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
        let answer = node.ask(method, "/vendor_passthru/echo", bar.clone()).await;
        assert_eq!((answer.status, answer.json()), (200, json!({method: bar})));
    }
    for (method, path, text) in [
        (
            "GET",
            "/vendor_passthru",
            "Missing mandatory parameter: method",
        ),
        (
            "POST",
            "/vendor_passthru",
            "Missing mandatory parameter: method",
        ),
        (
            "POST",
            "/vendor_passthru/nope",
            "No handler for method nope",
        ),
        (
            "POST",
            "/vendor_passthru/echo?x=y",
            "Unexpected arguments: x",
        ),
    ] {
        let refused = node.ask(method, path, Value::Null).await;
        assert_eq!((refused.status, refused.fault().as_str()), (400, text));
    }
    let driver = On(&api, "/v1/drivers/redfish".to_owned());
    assert_eq!(
        driver.get("/vendor_passthru/methods").await.json(),
        json!({})
    );
    for path in ["/vendor_passthru/x", "/vendor_passthru?method=x"] {
        let refused = driver.ask("POST", path, json!({})).await;
        assert_eq!(refused.fault(), "No handler for method x");
    }
    let unknown = api.get("/v1/drivers/nope/properties").await;
    assert_eq!(
        (unknown.status, unknown.fault().as_str()),
        (404, "The driver 'nope' is unknown.")
    );
    let raid = "raid/logical_disk_properties";
    assert_eq!(driver.get(&format!("/{raid}")).await.status, 404, "no RAID");
    assert_eq!(
        api.get(&format!("/v1/drivers/nope/{raid}")).await.status,
        404
    );
}

#[tokio::test]
async fn drivers_and_conductors_by_field() {
    let api = Api::open().await;
    let one = api
        .get("/v1/drivers/redfish?fields=name,links,default_bios_interface")
        .await
        .json();
    let keys: Vec<&String> = one.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["default_bios_interface", "links", "name"]);
    for query in ["fields=bogus", "detail=true", "limit=1"] {
        let path = format!("/v1/drivers/redfish?{query}");
        assert_eq!(api.get(&path).await.status, 400, "{query}");
    }
    let list = api.get("/v1/conductors?limit=1").await.json();
    assert_eq!(list["conductors"][0]["hostname"], "conductor-1");
    let next = list["next"].as_str().unwrap();
    assert!(next.contains("limit=1&marker=conductor-1"), "{next}");
    let rest = api
        .get(next.strip_prefix("http://api.test").unwrap())
        .await
        .json();
    assert_eq!(rest, json!({"conductors": []}));
    let links = api.get("/v1/conductors?fields=links").await.json();
    assert_eq!(links["conductors"][0].as_object().unwrap().len(), 1);
    for (query, status) in [
        ("sort_key=hostname&sort_dir=desc", 200),
        ("fields=hostname&detail=false", 200),
        ("sort_key=alive", 400),
        ("sort_key=drivers", 400),
        ("sort_dir=up", 400),
        ("limit=0", 400),
        ("fields=bogus", 400),
        ("fields=hostname&detail=true", 400),
        ("marker=nope", 404),
    ] {
        assert_eq!(
            api.get(&format!("/v1/conductors?{query}")).await.status,
            status,
            "{query}"
        );
    }
}

#[tokio::test]
async fn events_are_checked() {
    let api = Api::open().await;
    let good = json!({"event": "network.bind_port", "port_id": N1, "status": "ACTIVE",
        "mac_address": "de:ad:ca:fe:ba:be"});
    let with = |key: &str, value: Value| {
        let mut event = good.clone();
        event[key] = value;
        json!({"events": [event]})
    };
    let without = |key: &str| {
        let mut event = good.clone();
        event.as_object_mut().unwrap().remove(key);
        json!({"events": [event]})
    };
    for (body, status) in [
        (json!({"events": [good]}), 204),
        (with("device_id", json!(N2)), 204),
        (with("binding:host_id", json!(N2)), 204),
        (with("binding:vnic_type", json!("baremetal")), 204),
        (with("event", json!("network.unbind_port")), 204),
        (with("event", json!("x")), 400),
        (with("foo", json!(1)), 400),
        (with("device_id", json!("zz")), 400),
        (with("port_id", json!("zz")), 400),
        (with("mac_address", json!("zz")), 400),
        (without("status"), 400),
        (without("event"), 400),
        (json!({"events": []}), 400),
        (json!({"events": [1]}), 400),
        (json!({}), 400),
        (Value::Null, 400),
    ] {
        let sent = api.call("latest", "POST", "/v1/events", body.clone()).await;
        assert_eq!(sent.status, status, "{body}: {}", sent.text);
    }
    assert_eq!(api.get("/v1/events").await.status, 405);
}

#[tokio::test]
async fn filters_of_nodes_by_version() {
    let api = Api::open().await;
    for (query, first) in [
        ("provision_state=enroll", 9),
        ("driver=redfish", 16),
        ("resource_class=x", 21),
        ("fault=power+failure", 42),
        ("conductor_group=x", 46),
        ("conductor=x", 49),
        ("owner=x", 50),
        ("lessee=x", 65),
        ("shard=x", 82),
        ("sharded=true", 82),
        ("parent_node=x", 83),
        ("include_children=true", 83),
        ("instance_name=x", 104),
        ("sort_key=resource_class", 21),
        ("sort_key=health", 109),
    ] {
        let path = format!("/v1/nodes?{query}");
        for (version, status) in [(first - 1, 406), (first, 200)] {
            let version = format!("1.{version}");
            let answer = api.call(&version, "GET", &path, Value::Null).await;
            assert_eq!(answer.status, status, "{query} at {version}");
        }
    }
    // These came without a gate.
    for query in ["retired=true", "description_contains=x", "project=x"] {
        let path = format!("/v1/nodes?{query}");
        assert_eq!(
            api.call("1.50", "GET", &path, Value::Null).await.status,
            200,
            "{query}"
        );
    }
    for key in [
        "conductor",
        "allocation_uuid",
        "chassis_uuid",
        "links",
        "traits",
        "clean_step",
    ] {
        let path = format!("/v1/nodes?sort_key={key}");
        assert_eq!(api.get(&path).await.status, 400, "{key}");
    }
    let nodes = api.get("/v1/nodes?shard=").await.json();
    assert_eq!(nodes, json!({"nodes": []}));
}

#[tokio::test]
async fn links_never_carry_what_is_no_host() {
    let api = Api::open().await;
    let ask = async |host: &str| {
        let request = Request::get("/v1/nodes?limit=1").header("host", host);
        let request = request.header("x-forwarded-host", "evil.test");
        api.send(request.body(Body::empty()).unwrap()).await
    };
    for (host, base) in [
        ("api.test:1", "http://api.test:1/"),
        ("a\"b", "http://localhost/"),
    ] {
        let body = ask(host).await.json();
        let href = body["nodes"][0]["links"][0]["href"].as_str().unwrap();
        assert!(href.starts_with(base), "{href}");
    }
}

#[tokio::test]
async fn history_by_version() {
    let api = Api::new("history", Auth::none()).await;
    let node = node(&api);
    for (version, project, duration) in [("1.112", false, false), ("1.114", true, false)] {
        let list = node
            .at(version, "GET", "/history?detail=true", Value::Null)
            .await
            .json();
        let entry = list["history"][0].as_object().unwrap();
        assert_eq!(entry.contains_key("project"), project, "{version}");
        assert_eq!(
            entry.contains_key("duration_seconds"),
            duration,
            "{version}"
        );
    }
    let list = node.get("/history?detail=true&limit=1").await.json();
    assert_eq!(list["history"][0]["duration_seconds"], 1.5);
    assert!(list["next"].as_str().unwrap().contains("detail=true"));
    let brief = node.get("/history").await.json();
    assert_eq!(brief["history"][0].as_object().unwrap().len(), 5);
    let missing = node.get(&format!("/history?marker={N2}")).await;
    let text = format!("Node history record {N2} could not be found.");
    assert_eq!((missing.status, missing.fault()), (404, text));
    assert_eq!(node.get("/history?fields=uuid").await.status, 400);
}
