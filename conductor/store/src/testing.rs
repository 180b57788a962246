//! Sample rows for tests.

mod postgres;

use uuid::Uuid;

use crate::Node;
use crate::Port;
use crate::Store;

/// An empty database: in memory, or one of its own on the PostgreSQL server
/// that [`postgres`] has started for a second run of all tests.
pub(crate) async fn store() -> Store {
    match std::env::var(postgres::SERVER) {
        Ok(server) => postgres::database(&server).await,
        Err(_) => Store::open("sqlite::memory:").await.unwrap(),
    }
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
