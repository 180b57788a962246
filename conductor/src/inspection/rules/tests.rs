//! Whole rules.

use jiff::Timestamp;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_store::InspectionRule;

use super::Failure;
use super::Level;
use super::Subject;
use super::apply;
use super::check;

fn rule(conditions: Value, actions: Value) -> InspectionRule {
    let list = |value: Value| value.as_array().cloned().unwrap();
    InspectionRule {
        uuid: Uuid::nil(),
        description: Some("r".to_owned()),
        priority: 0,
        phase: "main".to_owned(),
        sensitive: false,
        conditions: list(conditions),
        actions: list(actions),
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: None,
    }
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn subject() -> Subject {
    Subject {
        node: object(
            json!({"driver": "fake-hardware", "name": "n", "extra": {}, "traits": [],
            "properties": {}, "driver_info": {"password": "hunter2"}, "provision_state": "enroll"}),
        ),
        ports: vec![object(
            json!({"uuid": Uuid::nil(), "address": "52:54:00:00:aa:01",
            "extra": {}, "pxe_enabled": true}),
        )],
        inventory: object(json!({"cpu": {"count": 4}, "bmc_address": "192.0.2.1"})),
        plugin_data: object(json!({"macs": []})),
    }
}

#[test]
fn a_rule_of_many_actions() {
    let actions = json!([
        {"op": "set-attribute", "args": {"path": "/extra/x", "value": {"n": "{inventory[cpu][count]}"}}},
        {"op": "set-attribute", "args": ["driver_info.address", "https://{inventory[bmc_address]}"]},
        {"op": "extend-attribute", "args": {"path": "/extra/list", "value": "{item}", "unique": true},
            "loop": ["a", "b", "a"]},
        {"op": "del-attribute", "args": {"path": "/name"}},
        {"op": "set-capability", "args": {"name": "boot_mode", "value": "uefi"}},
        {"op": "add-trait", "args": {"name": "CUSTOM_GOLD"}},
        {"op": "set-plugin-data", "args": {"path": "/seen", "value": true}},
        {"op": "extend-plugin-data", "args": {"path": "/macs", "value": "x"}},
        {"op": "unset-plugin-data", "args": {"path": "/none"}},
        {"op": "set-port-attribute", "args": {"port_id": "52:54:00:00:AA:01", "path": "pxe_enabled",
            "value": false}},
        {"op": "log", "args": {"msg": "{node.driver} {node.driver_info[password]}", "level": "warning"}},
    ]);
    let conditions = json!([{"op": "eq", "args": {"values": ["{node.driver}", "fake-hardware"]}}]);
    let unmet = rule(
        json!([{"op": "!eq", "args": {"values": ["{node.driver}", "fake-hardware"]}}]),
        json!([{"op": "fail", "args": {"msg": "no"}}]),
    );
    let mut subject = subject();
    let report = apply(&[unmet, rule(conditions, actions)], &mut subject, &[]).unwrap();
    assert_eq!(report.met, 1);
    assert_eq!(
        report.lines,
        [(Level::Warning, "fake-hardware ******".to_owned())]
    );
    assert_eq!(
        subject.node["extra"],
        json!({"x": {"n": "4"}, "list": ["a", "b"]})
    );
    assert_eq!(subject.node["driver_info"]["address"], "https://192.0.2.1");
    assert_eq!(subject.node["name"], Value::Null);
    assert_eq!(subject.node["properties"]["capabilities"], "boot_mode:uefi");
    assert_eq!(subject.node["traits"], json!(["CUSTOM_GOLD"]));
    assert_eq!(
        Value::Object(subject.plugin_data),
        json!({"macs": ["x"], "seen": true})
    );
    assert_eq!(subject.ports[0]["pxe_enabled"], false);
}

#[test]
fn failures_say_which_rule_and_why() {
    for (action, text) in [
        (
            json!({"op": "fail", "args": ["{node.name} is bad"]}),
            "n is bad",
        ),
        (
            json!({"op": "set-attribute", "args": ["/provision_state", "active"]}),
            "is no field of a node",
        ),
        (
            json!({"op": "set-attribute", "args": ["/uuid", "x"]}),
            "is no field of a node",
        ),
        (
            json!({"op": "set-port-attribute", "args": ["52:54:00:00:aa:01", "/address", "x"]}),
            "is no field of a port",
        ),
        (
            json!({"op": "del-port-attribute", "args": ["x", "/extra"]}),
            "has no port \"x\"",
        ),
        (
            json!({"op": "extend-attribute", "args": ["/name", "x"]}),
            "is no list",
        ),
        (
            json!({"op": "log", "args": ["x", "loud"]}),
            "level is none of",
        ),
        (
            json!({"op": "api-call", "args": ["https://a.test/"]}),
            "api_call_allow",
        ),
    ] {
        let mut ruled = rule(json!([]), json!([action]));
        let failure = apply(std::slice::from_ref(&ruled), &mut subject(), &[]).unwrap_err();
        assert!(failure.to_string().contains(text), "{failure}");
        ruled.sensitive = true;
        let failure = apply(&[ruled], &mut subject(), &[])
            .unwrap_err()
            .to_string();
        assert!(
            !failure.contains(text) && failure.contains("sensitive"),
            "{failure}"
        );
    }
    let broken = rule(json!([]), json!([{"op": "nope"}]));
    assert!(
        check(&broken)
            .unwrap_err()
            .starts_with("Schema error: 'nope'")
    );
    assert!(matches!(
        apply(&[broken], &mut subject(), &[]),
        Err(Failure::Rule { .. })
    ));
}

#[test]
fn sensitive_rules_log_nothing() {
    let mut quiet = rule(json!([]), json!([{"op": "log", "args": ["secret"]}]));
    quiet.sensitive = true;
    let loud = rule(json!([]), json!([{"op": "log", "args": ["plain"]}]));
    let report = apply(&[loud, quiet], &mut subject(), &[]).unwrap();
    assert_eq!(report.lines, [(Level::Info, "plain".to_owned())]);
}

#[test]
fn calls_are_collected_within_bounds() {
    let allowed = ["https://hooks.test/".to_owned()];
    let call = |args: Value| rule(json!([]), json!([{"op": "api-call", "args": args}]));
    let good = call(
        json!({"url": "https://hooks.test/{node.name}", "headers": {"x-n": 1},
        "retries": 2}),
    );
    let report = apply(&[good], &mut subject(), &allowed).unwrap();
    let made = &report.calls[0];
    assert_eq!(
        (made.url.as_str(), made.retries),
        ("https://hooks.test/n", 2)
    );
    assert_eq!(made.headers, [("x-n".to_owned(), "1".to_owned())]);
    for bad in [
        json!({"url": "https://other.test/"}),
        json!({"url": "https://hooks.test/", "timeout": 1000}),
        json!({"url": "https://hooks.test/", "retries": -1}),
        json!({"url": "https://hooks.test/", "proxies": {"http": "x"}}),
        json!({"url": "https://hooks.test/", "headers": []}),
    ] {
        assert!(
            apply(&[call(bad.clone())], &mut subject(), &allowed).is_err(),
            "{bad}"
        );
    }
    let many = json!([{"op": "api-call", "args": ["https://hooks.test/"], "loop": vec![0; 21]}]);
    assert!(apply(&[rule(json!([]), many)], &mut subject(), &allowed).is_err());
}

#[test]
fn the_whole_has_an_end() {
    let loops = json!({"op": "set-plugin-data", "args": ["/x", 1], "loop": vec![0; 1000]});
    let heavy = rule(json!([]), Value::Array(vec![loops; 51]));
    let failure = apply(&[heavy], &mut subject(), &[]).unwrap_err();
    assert!(failure.to_string().contains("steps"), "{failure}");
    let big = json!({"op": "set-plugin-data", "args": ["/x/{item}", "y".repeat(60_000)],
        "loop": (0..1000).collect::<Vec<_>>()});
    let failure = apply(&[rule(json!([]), json!([big]))], &mut subject(), &[]).unwrap_err();
    assert!(failure.to_string().contains("bytes"), "{failure}");
}
