//! What holds for every rule and every inventory: the engine ends, does not
//! panic, keeps secrets, and touches only what rules may change.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_store::InspectionRule;
use wrought_wire::inspection::ActionOp;
use wrought_wire::inspection::ConditionOp;

use super::Subject;
use super::actions::NODE_FIELDS;
use super::apply;

const SECRET: &str = "hunter2-hunter2";

/// Any small JSON value, with texts that look like format strings.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        texts().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-z]{1,3}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,12}",
        "[{}\\[\\].a-z0-9 ]{0,16}",
        "\\{(node|inventory|plugin_data|item)(\\.[a-z_]{1,8}|\\[[a-z_0-9]{1,6}\\]){0,3}\\}",
        Just("{node.driver_info}".to_owned()),
        Just("{node.driver_info[redfish_password]}".to_owned()),
        Just("/extra/x".to_owned()),
        Just("driver_info.redfish_password".to_owned()),
        Just("52:54:00:00:00:01".to_owned()),
    ]
}

fn args(needed: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop::collection::vec(values(), needed.len()).prop_map(move |values| {
        let names = needed.iter().map(|name| (*name).to_owned());
        Value::Object(names.zip(values).collect())
    })
}

fn items() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        prop::collection::vec(values(), 0..4).prop_map(Value::from)
    ]
}

fn conditions() -> impl Strategy<Value = Value> {
    (
        prop::sample::select(ConditionOp::ALL),
        any::<bool>(),
        items(),
    )
        .prop_flat_map(|(op, negated, items)| {
            let name = format!("{}{}", if negated { "!" } else { "" }, op.as_str());
            args(op.needed()).prop_map(move |args| json!({"op": name, "args": args, "loop": items}))
        })
}

fn actions() -> impl Strategy<Value = Value> {
    (prop::sample::select(ActionOp::ALL), items()).prop_flat_map(|(op, items)| {
        let name = op.as_str();
        args(op.needed()).prop_map(move |args| json!({"op": name, "args": args, "loop": items}))
    })
}

fn rules() -> impl Strategy<Value = InspectionRule> {
    let parts = (
        prop::collection::vec(conditions(), 0..2),
        prop::collection::vec(actions(), 1..4),
    );
    parts.prop_map(|(conditions, actions)| InspectionRule {
        uuid: Uuid::nil(),
        description: None,
        priority: 0,
        phase: "main".to_owned(),
        sensitive: false,
        conditions,
        actions,
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: None,
    })
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn subject(inventory: Value) -> Subject {
    Subject {
        node: object(
            json!({"uuid": Uuid::nil(), "driver": "redfish", "provision_state": "inspecting",
            "driver_info": {"redfish_password": SECRET, "address": format!("https://u:{SECRET}@h")},
            "driver_internal_info": {"agent_secret_token": SECRET}, "extra": {}, "properties": {},
            "traits": []}),
        ),
        ports: vec![object(
            json!({"uuid": Uuid::nil(), "address": "52:54:00:00:00:01", "extra": {}}),
        )],
        inventory: object(json!({"a": inventory})),
        plugin_data: Map::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn rules_keep_secrets_and_their_place(
        rules in prop::collection::vec(rules(), 1..4),
        inventory in values(),
    ) {
        let before = subject(inventory);
        let mut after = before.clone();
        let outcome = apply(&rules, &mut after, &["https://hooks.test/".to_owned()]);
        let told = match &outcome {
            Ok(report) => format!("{:?}", report),
            Err(failure) => failure.to_string(),
        };
        prop_assert!(!told.contains(SECRET), "{told}");
        for (field, value) in &after.node {
            if !NODE_FIELDS.contains(&field.as_str()) {
                prop_assert_eq!(Some(value), before.node.get(field));
            }
            if field != "driver_info" && field != "driver_internal_info" {
                prop_assert!(!value.to_string().contains(SECRET));
            }
        }
        let elsewhere = format!("{:?}{:?}", after.plugin_data, after.ports);
        prop_assert!(!elsewhere.contains(SECRET), "{elsewhere}");
        prop_assert_eq!(&after.inventory, &before.inventory);
    }

    #[test]
    fn one_rule_twice_is_the_same(rule in rules(), inventory in values()) {
        let mut first = subject(inventory);
        let mut second = first.clone();
        let rules = std::slice::from_ref(&rule);
        let outcomes = (apply(rules, &mut first, &[]), apply(rules, &mut second, &[]));
        prop_assert_eq!(outcomes.0, outcomes.1);
        prop_assert_eq!(first, second);
    }
}
