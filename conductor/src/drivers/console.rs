//! Consoles: ways to a machine's screen and keyboard.

use async_trait::async_trait;
use serde_json::Value;
use serde_json::json;
use wrought_store::node::Node;

use crate::error::Error;
use crate::service::Service;

/// A way to the console.
#[async_trait]
pub trait Console: Send + Sync {
    /// Opens it.
    async fn start(&self, svc: &Service, node: &Node) -> Result<(), Error>;
    /// Closes it.
    async fn stop(&self, svc: &Service, node: &Node) -> Result<(), Error>;
    /// How an open one is reached.
    fn info(&self, node: &Node) -> Value;
}

/// Those that there are. `no-console` is the lack of one.
pub(super) const CONSOLE: super::Table<dyn Console> = &[("fake", &Fake)];

/// A console that nobody can see.
struct Fake;

#[async_trait]
impl Console for Fake {
    async fn start(&self, _svc: &Service, _node: &Node) -> Result<(), Error> {
        Ok(())
    }

    async fn stop(&self, _svc: &Service, _node: &Node) -> Result<(), Error> {
        Ok(())
    }

    fn info(&self, _node: &Node) -> Value {
        json!({})
    }
}
