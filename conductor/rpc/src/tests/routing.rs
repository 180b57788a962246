//! Which conductor gets a call.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wrought_store::Chassis;
use wrought_store::Node;
use wrought_store::Port;
use wrought_store::Registration;
use wrought_store::Store;

use crate::Conductor;
use crate::Error;
use crate::Hardware;
use crate::Kind;
use crate::Remote;
use crate::ring::Ring;
use crate::testing::Ca;
use crate::testing::Serving;

const DEAD_AFTER: Duration = Duration::from_secs(60);

/// A database and a CA.
pub(super) struct Installation {
    pub(super) store: Store,
    pub(super) ca: Ca,
}

impl Installation {
    pub(super) async fn new() -> Self {
        Self {
            store: Store::open("sqlite::memory:").await.unwrap(),
            ca: Ca::new(),
        }
    }

    pub(super) async fn register(&self, host: &str, group: &str, url: &str) {
        let registration = Registration {
            rpc_url: Some(url.to_owned()),
            ..Registration::new(host, group, &["fake-hardware".to_owned()])
        };
        self.store.register_conductor(&registration).await.unwrap();
    }

    /// A conductor that listens and is registered.
    async fn conductor(&self, host: &str, group: &str) -> Serving {
        let serving = Serving::start(self.ca.server("127.0.0.1"));
        serving.conductor.answer("destroy_node", Ok(json!(null)));
        self.register(host, group, &serving.url).await;
        serving
    }

    /// A stored node.
    pub(super) async fn node(&self, group: &str) -> Node {
        let node = Node {
            conductor_group: group.to_owned(),
            ..Node::new("fake-hardware")
        };
        self.store.create_node(&node).await.unwrap();
        node
    }

    /// A stored node that `owner` has in a ring of `hosts`.
    async fn node_of(&self, owner: &str, hosts: &[&str]) -> Node {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let ring = Ring::new(&hosts);
        let node = std::iter::repeat_with(|| Node::new("fake-hardware"))
            .find(|node| ring.owner(node.uuid) == Some(owner));
        let node = node.unwrap();
        self.store.create_node(&node).await.unwrap();
        node
    }

    pub(super) fn remote(&self) -> Arc<Remote> {
        let tls = self.ca.client();
        Remote::start(self.store.clone(), DEAD_AFTER, tls, DEAD_AFTER).unwrap()
    }

    async fn unregister(&self, host: &str) {
        let conductors = self.store.conductors().await.unwrap();
        let found = conductors
            .iter()
            .find(|conductor| conductor.hostname == host);
        let instance = found.unwrap().instance;
        self.store
            .unregister_conductor(host, instance)
            .await
            .unwrap();
    }
}

fn not_mine() -> Error {
    Error::new(Kind::NotMine, "Node x is with another conductor.")
}

#[tokio::test]
async fn each_node_has_its_conductor() {
    let installation = Installation::new().await;
    let a = installation.conductor("a", "").await;
    let b = installation.conductor("b", "").await;
    let rack = installation.conductor("c", "rack").await;
    let remote = installation.remote();
    let ring = Ring::new(&["a".to_owned(), "b".to_owned()]);
    let mut seen = BTreeSet::new();
    for _ in 0..20 {
        let node = installation.node("").await.uuid;
        remote.destroy_node(node).await.unwrap();
        let (asked, other) = match ring.owner(node).unwrap() {
            "a" => (&a, &b),
            _ => (&b, &a),
        };
        assert_eq!(asked.conductor.asked()[0].1["node"], json!(node));
        assert_eq!(other.conductor.asked(), []);
        assert_eq!(
            remote.owner("", "fake-hardware", node).as_deref(),
            ring.owner(node)
        );
        seen.insert(ring.owner(node).unwrap());
    }
    assert_eq!(seen.len(), 2);
    assert_eq!(rack.conductor.asked(), []);
    let node = installation.node("rack").await.uuid;
    remote.destroy_node(node).await.unwrap();
    assert_eq!(rack.conductor.asked().len(), 1);
}

#[tokio::test]
async fn a_ring_that_moved_is_looked_at_again_once() {
    let installation = Installation::new().await;
    let a = installation.conductor("a", "").await;
    let remote = installation.remote();
    let node = installation.node_of("b", &["a", "b"]).await.uuid;
    remote.destroy_node(node).await.unwrap();
    assert_eq!(a.conductor.asked().len(), 1);

    // Another one comes, and the first knows it before we do.
    let b = installation.conductor("b", "").await;
    a.conductor.answer("destroy_node", Err(not_mine()));
    remote.destroy_node(node).await.unwrap();
    assert_eq!(b.conductor.asked().len(), 1);
    assert!(a.conductor.asked().len() <= 1);

    // Nobody wants it: asked twice in all, then told so.
    b.conductor.answer("destroy_node", Err(not_mine()));
    let error = remote.destroy_node(node).await.unwrap_err();
    assert_eq!(error.kind, Kind::NotMine);
    assert_eq!(a.conductor.asked().len() + b.conductor.asked().len(), 2);
}

#[tokio::test]
async fn other_errors_are_the_callers_and_come_whole() {
    let installation = Installation::new().await;
    let a = installation.conductor("a", "").await;
    let remote = installation.remote();
    let node = installation.node("").await.uuid;
    for kind in [Kind::Busy, Kind::NodeLocked, Kind::Hardware, Kind::Stale] {
        let refusal = Error::new(kind, "The whole sentence.");
        a.conductor.answer("destroy_node", Err(refusal));
        let error = remote.destroy_node(node).await.unwrap_err();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (kind, "The whole sentence.")
        );
        assert_eq!(a.conductor.asked().len(), 1);
    }
}

#[tokio::test]
async fn a_conductor_that_went_is_not_asked_again() {
    let installation = Installation::new().await;
    let a = installation.conductor("a", "").await;
    let b = installation.conductor("b", "").await;
    let node = installation.node_of("a", &["a", "b"]).await.uuid;
    a.stop().await;

    // It counts as alive: nobody else may do its work.
    let remote = installation.remote();
    let error = remote.destroy_node(node).await.unwrap_err();
    assert_eq!(error.kind, Kind::Busy);
    assert!(error.message.contains("a cannot be reached"), "{error}");
    assert_eq!(b.conductor.asked(), []);

    // It signed off.
    installation.unregister("a").await;
    remote.destroy_node(node).await.unwrap();
    assert_eq!(b.conductor.asked().len(), 1);
}

#[tokio::test]
async fn without_a_conductor_it_is_told_why() {
    let installation = Installation::new().await;
    let remote = installation.remote();
    let node = installation.node("").await;
    let error = remote.destroy_node(node.uuid).await.unwrap_err();
    assert_eq!(error.kind, Kind::Busy);
    assert!(error.message.contains("temporarily unavailable"), "{error}");
    assert_eq!(remote.owner("", "fake-hardware", node.uuid), None);

    // One that comes is found at once, although nobody was a moment ago.
    let a = installation.conductor("a", "").await;
    remote.destroy_node(node.uuid).await.unwrap();
    assert_eq!(a.conductor.asked().len(), 1);

    let lost = installation.node("elsewhere").await;
    let error = remote.destroy_node(lost.uuid).await.unwrap_err();
    assert_eq!(error.kind, Kind::NotFound);
    assert!(
        error.message.contains("conductor group \"elsewhere\""),
        "{error}"
    );
    let strange = Node::new("snmp");
    let error = remote.create_node(strange.clone()).await.unwrap_err();
    assert_eq!(error.kind, Kind::InvalidParameter);
    assert!(error.message.contains("supports driver snmp"), "{error}");
    let error = remote.update_node(strange, Vec::new(), false).await;
    assert_eq!(error.unwrap_err().kind, Kind::InvalidParameter);
    let error = remote.raid_properties("snmp").await.unwrap_err();
    assert_eq!(error.kind, Kind::NotFound);
    assert_eq!(a.conductor.asked(), []);
}

#[tokio::test]
async fn what_has_no_node_goes_to_anybody_alive() {
    let installation = Installation::new().await;
    let a = installation.conductor("a", "").await;
    let b = installation.conductor("b", "rack").await;
    let remote = installation.remote();
    let chassis = Chassis::default();
    for serving in [&a, &b] {
        let stored = json!(crate::Record::from(chassis.clone()));
        serving.conductor.answer("create_record", Ok(stored));
        let properties = json!({"size_gb": "s"});
        serving.conductor.answer("raid_properties", Ok(properties));
    }
    for _ in 0..2 {
        remote.create_record(chassis.clone().into()).await.unwrap();
        remote.raid_properties("fake-hardware").await.unwrap();
    }
    assert_eq!(a.conductor.asked().len() + b.conductor.asked().len(), 4);
    // The one that is left does it all.
    a.stop().await;
    let remote = installation.remote();
    for _ in 0..4 {
        remote.create_record(chassis.clone().into()).await.unwrap();
    }
    assert_eq!(b.conductor.asked().len(), 4);
}

#[tokio::test]
async fn parts_of_a_node_go_to_its_conductor() {
    let installation = Installation::new().await;
    let a = installation.conductor("a", "").await;
    let b = installation.conductor("b", "rack").await;
    let remote = installation.remote();
    let node = installation.node("rack").await;
    let port = crate::Record::from(Port::new(node.uuid, "52:54:00:00:00:01"));
    b.conductor.answer("create_record", Ok(json!(port)));
    remote.create_record(port).await.unwrap();
    assert_eq!(a.conductor.asked(), []);
    assert_eq!(b.conductor.asked().len(), 1);
}

#[tokio::test]
async fn drivers_are_what_the_conductors_registered() {
    let installation = Installation::new().await;
    let register = async |host: &str, boots: &[&str], property: &str| {
        let mut registration = Registration::new(host, "", &["redfish".to_owned()]);
        registration.interfaces =
            serde_json::from_value(json!({"redfish": {"boot": boots}})).unwrap();
        registration.properties =
            serde_json::from_value(json!({"redfish": {property: "Needed."}})).unwrap();
        let stored = installation.store.register_conductor(&registration).await;
        stored.unwrap();
    };
    register("a", &["ipxe", "pxe"], "redfish_address").await;
    register("b", &["pxe", "http"], "redfish_username").await;
    register("gone", &["old"], "old").await;
    installation.unregister("gone").await;
    let remote = installation.remote();
    // A driver that nobody has makes it look.
    let node = Node::new("fake-hardware");
    remote.create_node(node).await.unwrap_err();
    let drivers = remote.drivers();
    assert_eq!(
        serde_json::to_value(&drivers).unwrap(),
        json!([{
            "name": "redfish",
            "hosts": ["a", "b"],
            "defaults": {"boot": "ipxe"},
            "enabled": {"boot": ["ipxe", "pxe", "http"]},
            "properties": {"redfish_address": "Needed.", "redfish_username": "Needed."},
        }])
    );
}

#[tokio::test]
async fn who_comes_and_goes_is_known_without_a_call() {
    let installation = Installation::new().await;
    let remote = installation.remote();
    let node = installation.node("").await.uuid;
    // Sooner than by looking now and then.
    let soon = crate::view::FRESH / 2;
    for host in [Some("a"), None, Some("b")] {
        match host {
            Some(host) => installation.register(host, "", "https://192.0.2.9:1").await,
            None => installation.unregister("a").await,
        }
        let known = async {
            while remote.owner("", "fake-hardware", node).as_deref() != host {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(soon, known).await.unwrap();
    }
}
