//! All nodes, a page at a time: however many there are, few are in memory.

use std::sync::Arc;

use wrought_store::NodeQuery;
use wrought_store::node::Node;

use crate::service::Service;

/// Nodes of one page.
const PAGE: u32 = 200;

/// The pages of a query.
#[derive(Debug)]
pub(crate) struct Pages {
    svc: Arc<Service>,
    query: NodeQuery,
    ended: bool,
}

impl Pages {
    /// From the first on.
    pub(crate) fn of(svc: &Arc<Service>, query: NodeQuery) -> Self {
        Self {
            svc: Arc::clone(svc),
            query: NodeQuery {
                limit: Some(PAGE),
                ..query
            },
            ended: false,
        }
    }

    /// The next page, none after the last.
    pub(crate) async fn try_next(&mut self) -> Result<Option<Vec<Node>>, wrought_store::Error> {
        if self.ended {
            return Ok(None);
        }
        let page = self.svc.store.list_nodes(&self.query).await?;
        self.query.marker = page.last().map(|node| node.uuid);
        self.ended = page.len() < PAGE as usize;
        Ok((!page.is_empty()).then_some(page))
    }
}
