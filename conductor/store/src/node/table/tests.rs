//! Clashes, leases, stamps, and the round trip of nodes of any content.

use std::time::Duration;

use jiff::Timestamp;
use proptest::collection::btree_map;
use proptest::option;
use proptest::prelude::Strategy;
use proptest::prelude::any;
use proptest::prelude::prop;
use proptest::sample::select;
use proptest::test_runner::Config;
use proptest::test_runner::TestRunner;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_wire::state::PowerState;
use wrought_wire::state::ProvisionState;

use crate::Error;
use crate::Node;
use crate::node::INTERFACE_KINDS;
use crate::testing;

const TTL: Duration = Duration::from_secs(60);

#[tokio::test]
async fn found_by_uuid_and_name() {
    let store = testing::store().await;
    let node = testing::stored(&store, "n-1").await;
    for ident in [
        node.uuid.to_string(),
        node.uuid.simple().to_string(),
        "n-1".to_owned(),
    ] {
        assert_eq!(
            store.node(&ident).await.unwrap(),
            Some(node.clone()),
            "{ident}"
        );
    }
    assert_eq!(store.node("n-2").await.unwrap(), None);
    assert_eq!(store.node_by_uuid(Uuid::new_v4()).await.unwrap(), None);
}

#[tokio::test]
async fn texts_from_machines_may_have_nul() {
    let store = testing::store().await;
    let mut node = testing::stored(&store, "a").await;
    let lease = store.lock_node(node.uuid, "c", TTL).await.unwrap();
    node.last_error = Some("serial \0 unknown".to_owned());
    node.extra.insert("k".to_owned(), "\0".into());
    store.save_node(&lease, &mut node).await.unwrap();
    let kept = store.node_by_uuid(node.uuid).await.unwrap().unwrap();
    assert_eq!(kept.last_error.as_deref(), Some("serial \u{fffd} unknown"));
    assert_eq!(kept.extra["k"], "\0");
    assert_eq!(store.node("a\0").await.unwrap(), None);
}

#[tokio::test]
async fn clashes_are_typed() {
    let store = testing::store().await;
    let mut first = testing::node("a");
    first.instance_uuid = Some(Uuid::new_v4());
    store.create_node(&first).await.unwrap();

    let again = store.create_node(&first).await.unwrap_err();
    assert!(matches!(again, Error::DuplicateUuid { uuid, .. } if uuid == first.uuid));
    let same_name = store.create_node(&testing::node("a")).await.unwrap_err();
    assert!(matches!(same_name, Error::DuplicateName { name, .. } if name == "a"));
    let mut second = testing::stored(&store, "b").await;
    let lease = store.lock_node(second.uuid, "c", TTL).await.unwrap();
    second.instance_uuid = first.instance_uuid;
    let taken = store.save_node(&lease, &mut second).await.unwrap_err();
    assert!(matches!(taken, Error::InstanceAssociated { node, .. } if node == first.uuid));
    second.instance_uuid = None;
    second.name = Some("a".to_owned());
    let renamed = store.save_node(&lease, &mut second).await.unwrap_err();
    assert!(matches!(renamed, Error::DuplicateName { .. }));
    // Nothing of the failed saves was stored.
    let stored = store.node_by_uuid(second.uuid).await.unwrap().unwrap();
    assert_eq!(
        (stored.name.as_deref(), stored.updated_at),
        (Some("b"), None)
    );
}

#[tokio::test]
async fn saves_under_its_own_lease_alone() {
    let store = testing::store().await;
    let mut node = testing::stored(&store, "a").await;
    let other = testing::stored(&store, "b").await;
    let lease = store.lock_node(other.uuid, "c", TTL).await.unwrap();
    let wrong = store.save_node(&lease, &mut node).await.unwrap_err();
    assert!(matches!(wrong, Error::WrongLease { .. }));

    let lease = store.lock_node(node.uuid, "c", TTL).await.unwrap();
    node.provision_state = ProvisionState::Active;
    store.save_node(&lease, &mut node).await.unwrap();
    assert!(node.updated_at.is_some());
    assert_eq!(store.node("a").await.unwrap(), Some(node));
}

#[tokio::test]
async fn a_glance_reads_what_it_is_asked_for() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Known {
        agent_url: Option<String>,
        count: Option<u32>,
    }
    let store = testing::store().await;
    let mut node = testing::stored(&store, "a").await;
    let lease = store.lock_node(node.uuid, "c", TTL).await.unwrap();
    node.provision_state = ProvisionState::CleanWait;
    node.driver_internal_info
        .insert("agent_url".to_owned(), "https://h".into());
    node.driver_internal_info
        .insert("other".to_owned(), serde_json::json!({"a": [1]}));
    store.save_node(&lease, &mut node).await.unwrap();
    let (state, known) = store.glance::<Known>(node.uuid).await.unwrap().unwrap();
    assert_eq!(state, ProvisionState::CleanWait);
    let expected = Known {
        agent_url: Some("https://h".to_owned()),
        count: None,
    };
    assert_eq!(known, expected);
    assert!(
        store
            .glance::<Known>(Uuid::new_v4())
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn destroying_takes_all_that_belongs_to_it() {
    let store = testing::store().await;
    let node = testing::stored(&store, "a").await;
    let port = testing::port(node.uuid, "52:54:00:00:00:01");
    store.create_port(&port).await.unwrap();
    let lease = store.lock_node(node.uuid, "c", TTL).await.unwrap();
    store.unlock(lease.clone()).await.unwrap();
    let lost = store.destroy_node(&lease).await.unwrap_err();
    assert!(matches!(lost, Error::LeaseLost { .. }));
    let lease = store.lock_node(node.uuid, "c", TTL).await.unwrap();
    store.destroy_node(&lease).await.unwrap();
    assert_eq!(store.node("a").await.unwrap(), None);
    assert_eq!(store.port(port.uuid).await.unwrap(), None);
}

fn text() -> impl Strategy<Value = String> {
    // Quotes, NUL-free controls, non-ASCII: whatever fits into TEXT.
    "[^\u{0}]{0,12}"
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = proptest::prop_oneof![
        proptest::strategy::Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        proptest::prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map(text(), inner, 0..3).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    btree_map(text(), json(), 0..3).prop_map(|map| map.into_iter().collect())
}

fn time() -> impl Strategy<Value = Timestamp> {
    (-60_000_000_000_000_000_i64..250_000_000_000_000_000)
        .prop_map(|micros| Timestamp::from_microsecond(micros).unwrap())
}

fn any_uuid() -> impl Strategy<Value = Uuid> {
    any::<u128>().prop_map(Uuid::from_u128)
}

/// A node in which every field may have any value.
fn any_node() -> impl Strategy<Value = Node> {
    let state = || select(ProvisionState::ALL);
    let power = || option::of(select(PowerState::ALL));
    let name = || option::of(text());
    let ids = (
        any_uuid(),
        option::of(any_uuid()),
        option::of(any_uuid()),
        text(),
        text(),
    );
    let objects = prop::collection::vec(object(), 11);
    let texts = prop::collection::vec(name(), 15);
    let bools = prop::collection::vec(any::<bool>(), 5);
    let maybe = (option::of(any::<bool>()), option::of(any::<bool>()));
    let times = (time(), prop::collection::vec(option::of(time()), 4));
    let states = (state(), option::of(state()), power(), power());
    let lists = (
        prop::collection::vec(text(), 0..3),
        btree_map(
            select(&INTERFACE_KINDS[..]).prop_map(str::to_owned),
            text(),
            0..13,
        ),
    );
    (ids, objects, texts, bools, maybe, times, states, lists).prop_map(
        |(ids, objects, texts, bools, maybe, times, states, lists)| {
            let mut objects = objects.into_iter();
            let mut object = move || objects.next().unwrap();
            let mut texts = texts.into_iter();
            let mut maybe_text = move || texts.next().unwrap();
            let mut stamps = times.1.into_iter();
            let mut stamp = move || stamps.next().unwrap();
            Node {
                uuid: ids.0,
                name: maybe_text(),
                driver: ids.3,
                driver_info: object(),
                driver_internal_info: object(),
                properties: object(),
                instance_info: object(),
                instance_uuid: ids.1,
                instance_name: maybe_text(),
                extra: object(),
                clean_step: object(),
                deploy_step: object(),
                service_step: object(),
                raid_config: object(),
                target_raid_config: object(),
                reservation: None,
                conductor_group: ids.4,
                power_state: states.2,
                target_power_state: states.3,
                provision_state: states.0,
                target_provision_state: states.1,
                provision_updated_at: stamp(),
                maintenance: bools[0],
                maintenance_reason: maybe_text(),
                fault: maybe_text(),
                last_error: maybe_text(),
                console_enabled: bools[1],
                resource_class: maybe_text(),
                inspection_started_at: stamp(),
                inspection_finished_at: stamp(),
                automated_clean: maybe.0,
                protected: bools[2],
                protected_reason: maybe_text(),
                owner: maybe_text(),
                lessee: maybe_text(),
                description: maybe_text(),
                retired: bools[3],
                retired_reason: maybe_text(),
                network_data: object(),
                boot_mode: maybe_text(),
                secure_boot: maybe.1,
                health: maybe
                    .1
                    .map(|bad| if bad { "Critical" } else { "OK" }.to_owned()),
                shard: maybe_text(),
                parent_node: maybe_text(),
                disable_power_off: bools[4],
                chassis_uuid: ids.2,
                traits: lists.0,
                allocation_uuid: None,
                conductor_affinity: maybe_text(),
                interfaces: lists.1,
                created_at: times.0,
                updated_at: stamp(),
            }
        },
    )
}

#[test]
fn what_is_saved_is_what_is_read() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut runner = TestRunner::new(Config {
        cases: 64,
        ..Config::default()
    });
    runner
        .run(&(any_node(), any_node()), |(node, mut changed)| {
            runtime.block_on(async {
                let store = testing::store().await;
                store.create_node(&node).await.unwrap();
                assert_eq!(store.node_by_uuid(node.uuid).await.unwrap().unwrap(), node);

                changed.uuid = node.uuid;
                changed.created_at = node.created_at;
                let lease = store.lock_node(node.uuid, "c", TTL).await.unwrap();
                store.save_node(&lease, &mut changed).await.unwrap();
                assert_eq!(changed.reservation.as_deref(), Some("c"));
                assert_eq!(
                    store.node_by_uuid(node.uuid).await.unwrap().unwrap(),
                    changed
                );
                store.close().await;
            });
            Ok(())
        })
        .unwrap();
}
