//! Sample rows for tests.

use std::process::Command;
use std::time::Duration;

use tokio::sync::broadcast;
use uuid::Uuid;

use crate::Change;
use crate::Node;
use crate::Port;
use crate::Registration;
use crate::Store;

/// Tells a second run of all tests where a PostgreSQL server has its socket;
/// `cargo xtask test --all postgresql` starts one and makes that run.
const SERVER: &str = "WROUGHT_STORE_TEST_POSTGRES";

/// The URL of an empty database of its own on the server, if there is one.
pub(crate) fn postgres() -> Option<String> {
    let server = std::env::var(SERVER).ok()?;
    let name = format!("t{}", Uuid::new_v4().simple());
    let made = Command::new("createdb")
        .args(["-h", &server, "-U", "wrought", &name])
        .status()
        .unwrap();
    assert!(made.success(), "createdb: {made}");
    Some(format!("postgres://wrought@localhost/{name}?host={server}"))
}

/// An empty database: in memory, or one of its own on the server.
pub(crate) async fn store() -> Store {
    let url = postgres();
    let url = url.as_deref().unwrap_or("sqlite::memory:");
    Store::open(url).await.unwrap()
}

/// An empty database as two processes have it: on the server each has its own
/// connections, in memory they are one.
pub(crate) async fn pair() -> (Store, Store) {
    match postgres() {
        Some(url) => {
            let first = Store::open_shared(&url).await.unwrap();
            (first, Store::open_shared(&url).await.unwrap())
        }
        None => {
            let one = Store::open("sqlite::memory:").await.unwrap();
            (one.clone(), one)
        }
    }
}

/// Waits until changes reach the receiver: listening begins in the background.
pub(crate) async fn listening(store: &Store, receiver: &mut broadcast::Receiver<Change>) {
    let known = Registration::new("listening", "", &[]);
    for _ in 0..100 {
        store.register_conductor(&known).await.unwrap();
        let heard = tokio::time::timeout(Duration::from_millis(200), receiver.recv()).await;
        if matches!(heard, Ok(Ok(Change::Conductors))) {
            return;
        }
    }
    panic!("no change is told");
}

/// A bare node with that name.
pub(crate) fn node(name: &str) -> Node {
    Node {
        name: Some(name.to_owned()),
        ..Node::new("fake-hardware")
    }
}

/// A stored node with that name.
pub(crate) async fn stored(store: &Store, name: &str) -> Node {
    let node = node(name);
    store.create_node(&node).await.unwrap();
    node
}

/// The same where the connection may be cut while it is stored.
pub(crate) async fn stored_as(store: &Store, name: &str) -> Uuid {
    loop {
        match store.create_node(&node(name)).await {
            Ok(()) => {}
            Err(error) if error.is_passing() => {}
            // An earlier try was committed without an answer.
            Err(crate::Error::DuplicateName { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        if let Some(node) = store.node(name).await.unwrap() {
            return node.uuid;
        }
    }
}

/// A port of the node.
pub(crate) fn port(node: Uuid, address: &str) -> Port {
    Port::new(node, address)
}
