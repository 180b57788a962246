//! Failed nodes keep no artefacts; a node at work that nobody has locked is
//! gone on with; one that waits in a queue is in that queue.

use std::sync::Arc;

use wrought_store::NodeQuery;
use wrought_wire::state::ProvisionState;

use super::timeouts::work;
use crate::admission;
use crate::error::Error;
use crate::flows::Work;
use crate::flows::failure;
use crate::machine;
use crate::periodic;
use crate::periodic::pages::Pages;
use crate::service::Service;
use crate::task::store;

/// Looks at every node that works or has failed.
pub(crate) async fn check(svc: &Arc<Service>) -> Result<u64, Error> {
    let states = ProvisionState::ALL.iter().copied();
    let states = states.filter(|state| machine::is_working(*state) || state.is_failure());
    let query = NodeQuery {
        provision_state: states.collect(),
        include_children: true,
        ..NodeQuery::default()
    };
    let mut pages = Pages::of(svc, query);
    let mut seen = 0;
    while let Some(nodes) = pages.try_next().await.map_err(store("list nodes"))? {
        seen += periodic::count(nodes.len());
        for node in nodes.iter().filter(|node| periodic::is_free(svc, node)) {
            if failure::has_leftovers(node) {
                work(svc, node.uuid, node.provision_state, Work::PutAway).await;
            } else if admission::is_queued(node) {
                admission::keep_place(svc, node).await?;
            } else if machine::is_working(node.provision_state) {
                // Its conductor died, or its database failed it half-way.
                work(svc, node.uuid, node.provision_state, Work::Restart).await;
            }
        }
    }
    Ok(seen)
}
