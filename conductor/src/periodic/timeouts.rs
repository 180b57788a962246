//! Wait states end after a time of silence; failed nodes keep no artefacts; a
//! node at work that nobody has locked is gone on with.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;
use wrought_store::NodeQuery;
use wrought_store::heartbeat::Waiting;
use wrought_store::node::Node;
use wrought_wire::state::ProvisionState;

use crate::config;
use crate::error::chain;
use crate::flows;
use crate::flows::Work;
use crate::flows::failure;
use crate::machine;
use crate::periodic::pages::Pages;
use crate::service::Service;
use crate::stamps;
use crate::steps::Kind;
use crate::task::Task;

/// Looks at every node that waits, works or has failed.
pub(crate) async fn check(svc: &Arc<Service>) {
    silent(svc).await;
    let states = ProvisionState::ALL.iter().copied();
    let states = states.filter(|state| machine::is_working(*state) || state.is_failure());
    let query = NodeQuery {
        provision_state: states.collect(),
        include_children: true,
        ..NodeQuery::default()
    };
    let mut pages = Pages::of(svc, query);
    while let Some(nodes) = pages.next("time-outs not checked").await {
        let free = |node: &&Node| node.reservation.is_none() && svc.owns(node);
        for node in nodes.iter().filter(free) {
            if failure::has_leftovers(node) {
                work(svc, node.uuid, node.provision_state, Work::PutAway).await;
            } else if machine::is_working(node.provision_state) {
                // Its conductor died, or its database failed it half-way.
                work(svc, node.uuid, node.provision_state, Work::Restart).await;
            }
        }
    }
}

/// Ends waiting for agents that have been silent for too long.
async fn silent(svc: &Arc<Service>) {
    stamps::flush(svc).await;
    let states = ProvisionState::ALL.iter().copied();
    let states: Vec<ProvisionState> = states.filter(|state| machine::is_waiting(*state)).collect();
    let waiting = match svc.store.waiting_nodes(&states).await {
        Ok(waiting) => waiting,
        Err(error) => {
            tracing::warn!(err = %chain(&error), "time-outs not checked");
            return;
        }
    };
    let now = Timestamp::now();
    let free = |node: &&Waiting| {
        !node.reserved && svc.is_mine(&node.conductor_group, &node.driver, node.uuid)
    };
    for node in waiting.iter().filter(free) {
        let state = node.provision_state;
        let Some((ending, limit)) = ending(&svc.config.conductor, state) else {
            continue;
        };
        if state != ProvisionState::InspectWait {
            // A loop may have ended with an error of the database.
            svc.keep_watch(node.uuid);
        }
        let limit = Duration::from_secs(limit);
        let overdue = node.silence(now).is_some_and(|silence| silence > limit);
        if overdue && !limit.is_zero() && !node.maintenance {
            work(svc, node.uuid, state, ending).await;
        }
    }
}

/// How waiting ends in a state, and the seconds of silence after which it does;
/// 0: after none.
fn ending(config: &config::Conductor, state: ProvisionState) -> Option<(Work, u64)> {
    use ProvisionState as S;
    Some(match state {
        S::DeployWait => (Work::TimedOut(Kind::Deploy), config.deploy_callback_timeout),
        S::CleanWait => (Work::TimedOut(Kind::Clean), config.clean_callback_timeout),
        S::ServiceWait => (
            Work::TimedOut(Kind::Service),
            config.service_callback_timeout,
        ),
        S::RescueWait => (Work::RescueTimedOut, config.rescue_callback_timeout),
        S::InspectWait => (Work::InspectTimedOut, config.inspection.timeout),
        _ => return None,
    })
}

async fn work(svc: &Arc<Service>, node: Uuid, state: ProvisionState, work: Work) {
    // Next time is soon enough when everybody is busy or the node is locked.
    let Ok(permit) = svc.permit() else { return };
    match Task::take(svc, node, Duration::ZERO).await {
        Ok(task) if task.node.provision_state == state => {
            flows::spawn(svc, task, work, permit);
        }
        Ok(task) => task.release().await,
        Err(error) => {
            tracing::debug!(node = %node, err = %chain(&error), "left for the next time");
        }
    }
}

#[cfg(test)]
mod tests {
    use wrought_wire::state::ProvisionState;

    use super::ending;
    use crate::config::Conductor;
    use crate::machine;

    #[test]
    fn every_wait_has_a_deadline() {
        for state in ProvisionState::ALL {
            let ending = ending(&Conductor::default(), *state);
            assert_eq!(ending.is_some(), machine::is_waiting(*state), "{state}");
            assert!(ending.is_none_or(|(_, limit)| limit > 0), "{state}");
        }
    }
}
