//! Sample rows for tests.

use std::process::Command;

use uuid::Uuid;

use crate::Node;
use crate::Port;
use crate::Store;

/// Tells a second run of all tests where a PostgreSQL server has its socket;
/// `cargo xtask test --all postgresql` starts one and makes that run.
const SERVER: &str = "WROUGHT_STORE_TEST_POSTGRES";

/// An empty database: in memory, or one of its own on the server.
pub(crate) async fn store() -> Store {
    let Ok(server) = std::env::var(SERVER) else {
        return Store::open("sqlite::memory:").await.unwrap();
    };
    let name = format!("t{}", Uuid::new_v4().simple());
    let made = Command::new("createdb")
        .args(["-h", &server, "-U", "wrought", &name])
        .status()
        .unwrap();
    assert!(made.success(), "createdb: {made}");
    let url = format!("postgres://wrought@localhost/{name}?host={server}");
    Store::open(&url).await.unwrap()
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

/// A port of the node.
pub(crate) fn port(node: Uuid, address: &str) -> Port {
    Port::new(node, address)
}
