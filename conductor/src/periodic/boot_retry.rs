//! Starts machines again whose network boot came to nothing: nobody asked for
//! the agent's token within a time after the start.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use wrought_store::NodeQuery;
use wrought_store::node::Node;
use wrought_wire::state::ProvisionState;

use super::timeouts::work;
use crate::config;
use crate::error::Error;
use crate::flows::Work;
use crate::internal;
use crate::periodic;
use crate::periodic::pages::Pages;
use crate::service::Service;
use crate::steps::Awaited;
use crate::steps::Kind;
use crate::steps::Wait;
use crate::task::store;

/// Boot interfaces that boot from the network.
const BY_NETWORK: [&str; 3] = ["ipxe", "pxe", "http-ipxe"];

/// Seconds between two rounds; 0 where it is off.
pub(super) fn every(config: &config::Conductor) -> u64 {
    match config.boot_retry_timeout {
        0 => 0,
        _ => config.boot_retry_check_interval,
    }
}

/// One round over the nodes that wait for a ramdisk.
pub(super) async fn run(svc: &Arc<Service>) -> Result<u64, Error> {
    use ProvisionState as S;
    let query = NodeQuery {
        provision_state: vec![S::DeployWait, S::CleanWait, S::RescueWait, S::ServiceWait],
        maintenance: Some(false),
        include_children: true,
        ..NodeQuery::default()
    };
    let mut pages = Pages::of(svc, query);
    let mut seen = 0;
    while let Some(nodes) = pages.try_next().await.map_err(store("list nodes"))? {
        seen += periodic::count(nodes.len());
        for node in nodes.iter().filter(|node| periodic::is_free(svc, node)) {
            if is_lost(svc, node) {
                work(svc, node.uuid, node.provision_state, Work::RetryBoot).await;
            }
        }
    }
    Ok(seen)
}

/// Whether the machine was started too long ago for a ramdisk that has not
/// called yet.
pub(crate) fn is_lost(svc: &Service, node: &Node) -> bool {
    let by_network = node
        .interfaces
        .get("boot")
        .is_some_and(|name| BY_NETWORK.contains(&name.as_str()));
    // Rescues have no list of steps, and wait for nothing else.
    let for_agent = Kind::of(node.provision_state).is_none()
        || Wait::of(node).is_some_and(|wait| wait.what == Awaited::Agent);
    let nobody = internal::text(node, internal::AGENT_TOKEN).is_none()
        && internal::text(node, internal::AGENT_URL).is_none();
    let limit = Duration::from_secs(svc.config.conductor.boot_retry_timeout);
    let started: Option<Timestamp> = internal::read(node, internal::LAST_POWER_STATE_CHANGE);
    let since = started.and_then(|at| Duration::try_from(Timestamp::now().duration_since(at)).ok());
    by_network && for_agent && nobody && since.is_some_and(|since| since > limit)
}
