//! What the conductor's end takes and refuses, without a network.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::body::Bytes;
use axum::body::to_bytes;
use axum::http::Request;
use axum::http::StatusCode;
use serde_json::Value;
use serde_json::json;
use tower::ServiceExt;
use uuid::Uuid;
use wrought_store::Node;
use wrought_store::Port;

use crate::Conductor;
use crate::Error;
use crate::Kind;
use crate::Record;
use crate::methods;
use crate::server;
use crate::testing::Recorder;

const NODE: &str = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123";

async fn send(conductor: &Arc<Recorder>, request: Request<Body>) -> (StatusCode, Value) {
    let router = server::router(Arc::clone(conductor) as Arc<dyn Conductor>);
    let response = router.oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn post(body: impl Into<Body>) -> Request<Body> {
    let request = Request::post("/").header("content-type", "application/json");
    request.body(body.into()).unwrap()
}

/// The answer to a call.
async fn call(conductor: &Arc<Recorder>, method: &str, params: Value) -> Value {
    let call = json!({"jsonrpc": "2.0", "id": "c", "method": method, "params": params});
    let (status, answer) = send(conductor, post(call.to_string())).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["jsonrpc"], "2.0");
    assert_eq!(answer["id"], "c");
    answer
}

#[tokio::test]
async fn a_call_reaches_the_conductor_and_its_answer_comes_back() {
    let conductor = Arc::new(Recorder::default());
    conductor.answer(
        "boot_device",
        Ok(json!({"boot_device": "pxe", "persistent": null})),
    );
    let answer = call(&conductor, "boot_device", json!({"node": NODE})).await;
    assert_eq!(
        answer["result"],
        json!({"boot_device": "pxe", "persistent": null})
    );
    let asked = conductor.asked();
    assert_eq!(asked, [("boot_device".to_owned(), json!({"node": NODE}))]);

    let refusal = Error::new(Kind::NodeLocked, "Node x is locked by host y.");
    conductor.answer("destroy_node", Err(refusal));
    let answer = call(&conductor, "destroy_node", json!({"node": NODE})).await;
    assert_eq!(answer["error"]["code"], -32000);
    assert_eq!(
        answer["error"]["data"],
        json!({"kind": "NodeLocked", "message": "Node x is locked by host y."})
    );
}

#[tokio::test]
async fn an_answer_that_may_be_absent_is_a_list() {
    let conductor = Arc::new(Recorder::default());
    let params = json!({
        "node": NODE,
        "call": {"http_method": "POST", "method": "m", "parameters": {}},
    });
    conductor.answer("vendor_call", Ok(Value::Null));
    let none = call(&conductor, "vendor_call", params.clone()).await;
    assert_eq!(none["result"], json!([]));
    conductor.answer("vendor_call", Ok(json!(false)));
    let some = call(&conductor, "vendor_call", params).await;
    assert_eq!(some["result"], json!([false]));
}

#[tokio::test]
async fn what_is_no_single_named_call_of_2_0_is_refused() {
    let conductor = Arc::new(Recorder::default());
    let one =
        json!({"jsonrpc": "2.0", "id": 1, "method": "destroy_node", "params": {"node": NODE}});
    let with = |key: &str, value: Value| {
        let mut call = one.clone();
        call[key] = value;
        call.to_string()
    };
    for (body, code) in [
        ("{\"jsonrpc\"".to_owned(), -32700),
        (json!([one]).to_string(), -32600),
        (json!([]).to_string(), -32600),
        (with("params", json!([NODE])), -32600),
        (with("jsonrpc", json!("1.0")), -32600),
        (with("id", Value::Null), -32600),
        (with("method", json!("no_such_method")), -32601),
        (with("method", json!("drivers")), -32601),
        (with("params", json!({})), -32602),
        (with("params", json!({"node": 5})), -32602),
        (with("params", json!({"node": NODE, "more": 1})), -32602),
        (with("params", json!({"node": NODE, "caller": 1})), -32602),
    ] {
        let (status, answer) = send(&conductor, post(body.clone())).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        assert_eq!(answer["error"]["code"], code, "{body}: {answer}");
        assert!(answer.get("result").is_none());
    }
    assert_eq!(conductor.asked(), []);
}

#[tokio::test]
async fn other_requests_get_their_http_status() {
    let conductor = Arc::new(Recorder::default());
    let get = Request::get("/").body(Body::empty()).unwrap();
    assert_eq!(
        send(&conductor, get).await.0,
        StatusCode::METHOD_NOT_ALLOWED
    );
    let elsewhere = Request::post("/v1").body(Body::empty()).unwrap();
    assert_eq!(send(&conductor, elsewhere).await.0, StatusCode::NOT_FOUND);
    let text = Request::post("/").header("content-type", "text/plain");
    let text = text.body(Body::from("{}")).unwrap();
    let (status, _) = send(&conductor, text).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_and_while_it_comes() {
    let conductor = Arc::new(Recorder::default());
    let announced = Request::post("/")
        .header("content-type", "application/json")
        .header("content-length", (server::LIMIT + 1).to_string())
        .body(Body::empty())
        .unwrap();
    let (status, _) = send(&conductor, announced).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    // A body that never ends and does not say so.
    let chunk = Bytes::from(vec![b' '; 1 << 20]);
    let endless = futures_util::stream::repeat_with(move || Ok::<_, Infallible>(chunk.clone()));
    let (status, _) = send(&conductor, post(Body::from_stream(endless))).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
}

/// Parameters and an answer of every method, as they cross.
fn samples() -> Vec<(&'static str, Value, Value)> {
    let made = json!(Node::new("fake-hardware"));
    let record = json!(Record::from(Port::new(Uuid::nil(), "52:54:00:00:00:01")));
    let of_node = json!({"node": NODE});
    let more = |params: Value| {
        let mut all = of_node.clone();
        for (name, value) in params.as_object().unwrap() {
            all[name] = value.clone();
        }
        all
    };
    let request = json!({
        "verb": "rescue", "configdrive": null, "clean_steps": null, "deploy_steps": null,
        "service_steps": null, "rescue_password": "p", "disable_ramdisk": null,
    });
    let heartbeat = json!({"callback_url": "https://192.0.2.9:9999", "agent_token": "t"});
    let found = json!({"inventory": {"cpu": {"count": 4}}, "plugin_data": {}});
    let vendor = json!({"http_method": "POST", "method": "m", "parameters": {"a": 1}});
    let method = json!({"http_methods": ["POST"], "async": true, "description": "d",
        "attach": false, "require_exclusive_lock": true});
    let indicator = json!({"component": "system", "name": "led", "readonly": false,
        "states": ["on"]});
    let device = json!({"media_types": ["CD"], "inserted": true, "image": null});
    let vif = json!({"id": "v", "port": NODE, "portgroup": null});
    let light = json!({"component": "system", "name": "led"});
    let lit = json!({"component": "system", "name": "led", "state": "on"});
    let null = Value::Null;
    vec![
        ("create_node", json!({"node": made}), made.clone()),
        (
            "update_node",
            json!({"node": made, "fields": ["extra"], "reset_interfaces": true}),
            made.clone(),
        ),
        ("destroy_node", of_node.clone(), null.clone()),
        (
            "set_maintenance",
            more(json!({"on": true, "reason": "why"})),
            null.clone(),
        ),
        (
            "change_power",
            more(json!({"target": "soft rebooting", "timeout": 5})),
            null.clone(),
        ),
        ("provision", more(json!({"request": request})), null.clone()),
        (
            "validate",
            of_node.clone(),
            json!({"power": {"result": false, "reason": "r"}}),
        ),
        (
            "set_boot_device",
            more(json!({"device": "pxe", "persistent": true})),
            null.clone(),
        ),
        (
            "boot_device",
            of_node.clone(),
            json!({"boot_device": "disk", "persistent": false}),
        ),
        ("supported_boot_devices", of_node.clone(), json!(["pxe"])),
        (
            "heartbeat",
            more(json!({"heartbeat": heartbeat})),
            null.clone(),
        ),
        ("lookup", of_node.clone(), json!({"agent_token": "t"})),
        ("create_record", json!({"record": record}), record.clone()),
        ("update_record", json!({"record": record}), record.clone()),
        ("destroy_record", json!({"record": record}), null.clone()),
        (
            "continue_inspection",
            json!({"node": null, "found": found}),
            json!({"node": made, "config": {}}),
        ),
        (
            "set_target_raid",
            more(json!({"config": {"logical_disks": []}})),
            null.clone(),
        ),
        (
            "raid_properties",
            json!({"driver": "redfish"}),
            json!({"size_gb": "s"}),
        ),
        (
            "change_boot_mode",
            more(json!({"mode": "uefi"})),
            null.clone(),
        ),
        (
            "change_secure_boot",
            more(json!({"on": false})),
            null.clone(),
        ),
        ("inject_nmi", of_node.clone(), null.clone()),
        ("indicators", of_node.clone(), json!([indicator])),
        ("indicator", more(light), json!("on")),
        ("set_indicator", more(lit), null.clone()),
        ("console", of_node.clone(), json!([{"type": "x"}])),
        ("set_console", more(json!({"on": true})), null.clone()),
        ("vifs", of_node.clone(), json!(["v"])),
        ("attach_vif", more(json!({"vif": vif})), null.clone()),
        ("detach_vif", more(json!({"id": "v"})), null.clone()),
        ("media", of_node.clone(), json!([device])),
        (
            "attach_media",
            more(json!({"media": {"kind": "cdrom", "url": "http://u:p@h/x.iso"}})),
            null.clone(),
        ),
        (
            "detach_media",
            more(json!({"kinds": ["cdrom"]})),
            null.clone(),
        ),
        ("vendor_methods", of_node.clone(), json!({"m": method})),
        ("vendor_call", more(json!({"call": vendor})), json!([1])),
        (
            "driver_vendor_methods",
            json!({"driver": "redfish"}),
            json!({"m": method}),
        ),
        (
            "driver_vendor_call",
            json!({"driver": "redfish", "call": vendor}),
            json!([]),
        ),
    ]
}

#[tokio::test]
async fn every_method_crosses_with_its_parameters_and_answer() {
    let conductor = Arc::new(Recorder::default());
    let samples = samples();
    let names: BTreeSet<&str> = samples.iter().map(|(method, ..)| *method).collect();
    assert_eq!(names, methods::METHODS.iter().copied().collect());
    for (method, params, crossed) in samples {
        // Lists of none or one stand for what may be absent.
        let optional = ["console", "vendor_call", "driver_vendor_call"].contains(&method);
        let given = match (&crossed, optional) {
            (Value::Array(list), true) => list.first().cloned().unwrap_or_default(),
            _ => crossed.clone(),
        };
        conductor.answer(method, Ok(given));
        let answer = call(&conductor, method, params.clone()).await;
        assert_eq!(answer["result"], crossed, "{method}: {answer}");
        let asked = conductor.asked();
        let [(asked, taken)] = asked.as_slice() else {
            panic!("{method}: {asked:?}");
        };
        assert_eq!((asked.as_str(), set(taken)), (method, set(&params)));
    }
}

/// A value without what is null in it: parameters that were not given.
fn set(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let there = map.iter().filter(|(_, value)| !value.is_null());
            there
                .map(|(name, value)| (name.clone(), set(value)))
                .collect()
        }
        other => other.clone(),
    }
}
