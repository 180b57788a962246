//! Who is let in, and what a broken way looks like.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::RootCertStore;
use serde_json::json;
use uuid::Uuid;
use wrought_store::Node;

use super::routing::Installation;
use crate::Caller;
use crate::Conductor;
use crate::Error;
use crate::Kind;
use crate::Remote;
use crate::testing::Ca;
use crate::testing::Serving;

/// What a client with these settings is told by a conductor of `ca`.
async fn told(ca: &Ca, tls: ClientConfig) -> Result<(), Error> {
    let installation = Installation::new().await;
    let serving = Serving::start(ca.server("127.0.0.1"));
    serving.conductor.answer("destroy_node", Ok(json!(null)));
    installation.register("c1", "", &serving.url).await;
    let node = installation.node("").await;
    let timeout = Duration::from_secs(60);
    let remote = Remote::start(installation.store.clone(), timeout, tls, timeout).unwrap();
    let outcome = remote.destroy_node(node.uuid).await;
    let asked = serving.conductor.asked();
    assert_eq!(asked.len(), usize::from(outcome.is_ok()), "{asked:?}");
    outcome
}

#[tokio::test]
async fn both_ends_know_each_other_by_the_ca() {
    let ca = Ca::new();
    told(&ca, ca.client()).await.unwrap();
}

#[tokio::test]
async fn a_caller_without_a_certificate_is_refused() {
    let ca = Ca::new();
    let mut roots = RootCertStore::empty();
    roots.add(ca.der.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let error = told(&ca, tls).await.unwrap_err();
    assert_eq!(error.kind, Kind::Busy, "{error}");
}

#[tokio::test]
async fn a_caller_of_another_ca_is_refused() {
    let (ca, other) = (Ca::new(), Ca::new());
    // It trusts the conductor, but shows a certificate that somebody else issued.
    let tls = crate::tls::client(ca.der.clone(), other.issue("api.test")).unwrap();
    let error = told(&ca, tls).await.unwrap_err();
    assert_eq!(error.kind, Kind::Busy, "{error}");
}

#[tokio::test]
async fn a_conductor_of_another_ca_is_not_trusted() {
    let (ca, other) = (Ca::new(), Ca::new());
    let error = told(&other, ca.client()).await.unwrap_err();
    assert_eq!(error.kind, Kind::Busy);
    assert!(error.message.contains("cannot be reached"), "{error}");
}

#[tokio::test]
async fn a_conductor_with_another_name_is_not_trusted() {
    let installation = Installation::new().await;
    let serving = Serving::start(installation.ca.server("192.0.2.1"));
    installation.register("c1", "", &serving.url).await;
    let node = installation.node("").await;
    let error = installation.remote().destroy_node(node.uuid).await;
    let error = error.unwrap_err();
    assert!(error.message.contains("c1 cannot be reached"), "{error}");
    assert_eq!(serving.conductor.asked(), []);
}

#[tokio::test]
async fn large_and_odd_values_arrive_as_they_were() {
    let installation = Installation::new().await;
    let serving = Serving::start(installation.ca.server("127.0.0.1"));
    installation.register("c1", "", &serving.url).await;
    let drive = "x".repeat(5 << 20);
    let mut node = Node::new("fake-hardware");
    node.name = Some("naïve \u{0} \"node\" \\ \u{1f980}".to_owned());
    node.instance_info
        .insert("configdrive".to_owned(), json!(drive));
    let numbers = json!([0, -1, 1.5, u64::MAX, i64::MIN, null, {"": []}]);
    node.extra.insert("numbers".to_owned(), numbers);
    node.updated_at = Some(node.created_at);
    let stored = json!(node);
    serving.conductor.answer("create_node", Ok(stored));
    let back = installation.remote().create_node(node.clone()).await;
    assert_eq!(back.unwrap(), node);
    let asked = serving.conductor.asked();
    assert_eq!(asked[0].1["node"], json!(node));
}

#[tokio::test]
async fn who_asks_is_told_to_the_conductor() {
    let installation = Installation::new().await;
    let serving = Serving::start(installation.ca.server("127.0.0.1"));
    serving.conductor.answer("destroy_node", Ok(json!(null)));
    installation.register("c1", "", &serving.url).await;
    let node = installation.node("").await.uuid;
    let remote = installation.remote();
    let ann = Caller {
        user: Some("änn".to_owned()),
    };
    ann.clone().scope(remote.destroy_node(node)).await.unwrap();
    remote.destroy_node(node).await.unwrap();
    assert_eq!(serving.conductor.callers(), [ann, Caller::default()]);
    let params = json!({"node": node});
    assert!(
        serving
            .conductor
            .asked()
            .iter()
            .all(|(_, asked)| *asked == params)
    );
}

#[tokio::test]
async fn a_conductor_that_says_nothing_is_not_waited_for_without_end() {
    let installation = Installation::new().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    installation.register("c1", "", &url).await;
    let node = installation.node("").await;
    let remote = Remote::start(
        installation.store.clone(),
        Duration::from_secs(60),
        installation.ca.client(),
        Duration::from_millis(300),
    );
    let error = remote.unwrap().destroy_node(node.uuid).await.unwrap_err();
    assert_eq!(error.kind, Kind::Busy, "{error}");
    let nobody = installation.remote().destroy_node(Uuid::nil()).await;
    assert_eq!(nobody.unwrap_err().kind, Kind::NotFound);
}
