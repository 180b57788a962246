//! Wait states end after a time of silence, also in maintenance: nothing hangs
//! for ever.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;
use wrought_store::heartbeat::Waiting;
use wrought_wire::state::ProvisionState;

use crate::config;
use crate::error::Error;
use crate::error::chain;
use crate::flows;
use crate::flows::Work;
use crate::periodic;
use crate::service::Service;
use crate::stamps;
use crate::steps::Kind;
use crate::task::Task;
use crate::task::store;

/// Ends deploys whose agent is silent.
pub(crate) async fn deploy(svc: &Arc<Service>) -> Result<u64, Error> {
    check(svc, ProvisionState::DeployWait).await
}

/// Ends cleanings whose agent is silent.
pub(crate) async fn clean(svc: &Arc<Service>) -> Result<u64, Error> {
    check(svc, ProvisionState::CleanWait).await
}

/// Ends services whose agent is silent.
pub(crate) async fn service(svc: &Arc<Service>) -> Result<u64, Error> {
    check(svc, ProvisionState::ServiceWait).await
}

/// Ends rescues whose ramdisk has not called.
pub(crate) async fn rescue(svc: &Arc<Service>) -> Result<u64, Error> {
    check(svc, ProvisionState::RescueWait).await
}

/// Ends inspections whose ramdisk has sent nothing.
pub(crate) async fn inspect(svc: &Arc<Service>) -> Result<u64, Error> {
    check(svc, ProvisionState::InspectWait).await
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

/// Ends waiting in one state. The longest silence goes first.
async fn check(svc: &Arc<Service>, state: ProvisionState) -> Result<u64, Error> {
    let Some((ending, limit)) = ending(&svc.config.conductor, state) else {
        return Ok(0);
    };
    stamps::flush(svc).await;
    let waiting = svc.store.waiting_nodes(&[state]).await;
    let mut waiting = waiting.map_err(store("list waiting nodes"))?;
    waiting.sort_by_key(|node| node.last_sign);
    let now = Timestamp::now();
    let limit = Duration::from_secs(limit);
    let seen = periodic::count(waiting.len());
    waiting.retain(|node| {
        !node.reserved && svc.is_mine(&node.conductor_group, &node.driver, node.uuid)
    });
    let workers = svc.config.conductor.periodic_max_workers;
    periodic::each(workers, waiting, async |node: Waiting| {
        if state != ProvisionState::InspectWait {
            // A loop may have ended with an error of the database.
            svc.keep_watch(node.uuid);
        }
        let overdue = node.silence(now).is_some_and(|silence| silence > limit);
        if overdue && !limit.is_zero() {
            work(svc, node.uuid, state, ending).await;
        }
    })
    .await;
    Ok(seen)
}

/// Does something with a node that is in `state` still, if it can be locked at
/// once and a worker is free; else it is left for the next round.
pub(super) async fn work(svc: &Arc<Service>, node: Uuid, state: ProvisionState, work: Work) {
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
