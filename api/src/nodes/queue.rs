//! The place of a node in the queue that it waits in: counted when it is
//! shown, since it moves on without the node.

use serde_json::json;
use wrought_store::Node;

use crate::ApiState;
use crate::error::Result;

const SINCE: &str = "queued_at";
const POSITION: &str = "queue_position";

fn is_queued(node: &Node) -> bool {
    node.driver_internal_info.contains_key(SINCE)
}

fn put(node: &mut Node, position: Option<u64>) {
    // None: its turn has come this very moment.
    let position = position.unwrap_or_default();
    let info = &mut node.driver_internal_info;
    info.insert(POSITION.to_owned(), json!(position));
}

/// Puts the present place into a node that waits.
pub(crate) async fn place(state: &ApiState, mut node: Node) -> Result<Node> {
    if is_queued(&node) {
        let position = state.store.queue_position(node.uuid).await?;
        put(&mut node, position);
    }
    Ok(node)
}

/// The same for many nodes.
pub(crate) async fn places(state: &ApiState, nodes: &mut [Node]) -> Result<()> {
    if !nodes.iter().any(is_queued) {
        return Ok(());
    }
    let positions = state.store.queue_positions().await?;
    for node in nodes.iter_mut().filter(|node| is_queued(node)) {
        let position = positions.get(&node.uuid).copied();
        put(node, position);
    }
    Ok(())
}
