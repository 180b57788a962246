//! Machines that were to boot from a conductor that died meanwhile, and that
//! nothing has been heard of since, are started anew before their time runs out.

use std::sync::Arc;

use wrought_store::NodeQuery;
use wrought_wire::state::ProvisionState;

use super::timeouts::work;
use crate::error::Error;
use crate::flows::Work;
use crate::machine;
use crate::periodic;
use crate::periodic::pages::Pages;
use crate::service::Service;
use crate::takeover;
use crate::task::store;

/// One round over the nodes that wait for a ramdisk.
pub(super) async fn check(svc: &Arc<Service>) -> Result<u64, Error> {
    let waiting = |state: &ProvisionState| machine::is_waiting(*state);
    let query = NodeQuery {
        provision_state: ProvisionState::ALL
            .iter()
            .copied()
            .filter(waiting)
            .collect(),
        include_children: true,
        ..NodeQuery::default()
    };
    let mut pages = Pages::of(svc, query);
    let mut seen = 0;
    while let Some(nodes) = pages.try_next().await.map_err(store("list nodes"))? {
        seen += periodic::count(nodes.len());
        let members = svc.membership.members();
        for node in nodes.iter().filter(|node| periodic::is_free(svc, node)) {
            let server = takeover::waits_in_vain(node, &members);
            if server.is_some_and(|server| takeover::is_overdue(svc, node, server)) {
                work(svc, node.uuid, node.provision_state, Work::BootAgain).await;
            }
        }
    }
    Ok(seen)
}
