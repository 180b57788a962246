//! A conductor that lost its lease stops touching the node.

use std::time::Duration;

use wrought_rpc::Conductor;
use wrought_wire::state::PowerTarget;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;

#[tokio::test]
async fn who_lost_the_lease_writes_nothing() {
    let rig = Rig::with(
        "redfish",
        |config| {
            // Too slow to renew, as a conductor that was stopped for a while.
            config.pace.lease = Duration::from_millis(400);
            config.pace.renew = Duration::from_secs(60);
        },
        |_| {},
    )
    .await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    let before = rig.node().await;
    rig.machine
        .knobs(|knobs| knobs.bmc_delay = Duration::from_millis(700));
    rig.service
        .change_power(rig.node, PowerTarget::Reboot, None)
        .await
        .unwrap();
    let lease = loop {
        let other = rig
            .store
            .lock_node(rig.node, "other-host", Duration::from_secs(60))
            .await;
        if let Ok(lease) = other {
            break lease;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = rig.node().await;
    assert_eq!(after.reservation.as_deref(), Some("other-host"));
    assert_eq!(
        (after.power_state, after.last_error),
        (before.power_state, None)
    );
    // The second half of the reboot asked for the lease before it did anything.
    assert!(!rig.machine.is_on(), "{:?}", rig.machine.logged());
    rig.store.unlock(lease).await.unwrap();
}

#[tokio::test]
async fn lease_is_renewed_while_the_work_lasts() {
    let rig = Rig::with(
        "redfish",
        |config| {
            config.pace.lease = Duration::from_millis(900);
            config.pace.renew = Duration::from_millis(200);
        },
        |_| {},
    )
    .await;
    rig.machine
        .knobs(|knobs| knobs.bmc_delay = Duration::from_secs(3));
    rig.ask(Verb::Manage).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(rig.node().await.reservation.as_deref(), Some("host-1"));
    rig.reaches(S::Manageable).await;
}

/// A process that was stopped for longer than its lease (here: all of its one
/// thread) goes on with nothing, not by one step, when somebody else has come
/// meanwhile; and with everything when nobody has.
#[tokio::test]
async fn who_was_stopped_asks_before_it_goes_on() {
    let lease = Duration::from_millis(400);
    let rig = Rig::with(
        "redfish",
        |config| {
            config.pace.lease = lease;
            config.pace.renew = Duration::from_secs(60);
        },
        |_| {},
    )
    .await;
    for somebody_came in [false, true] {
        let task = crate::Task::take(&rig.service, rig.node, Duration::from_secs(5)).await;
        let task = task.unwrap();
        let acted = std::sync::atomic::AtomicBool::new(false);
        let work = async {
            if somebody_came {
                // As if it had run out: the other one takes it at once.
                rig.store.release_all("host-1").await.unwrap();
                let other = rig.store.lock_node(rig.node, "other", lease * 100).await;
                other.unwrap();
            }
            std::thread::sleep(lease * 2);
            tokio::task::yield_now().await;
            acted.store(true, std::sync::atomic::Ordering::SeqCst);
            Ok(())
        };
        let outcome = task.fence().guard(work).await;
        let acted = acted.into_inner();
        match somebody_came {
            true => assert!(outcome.is_err_and(|error| error.is_lease_lost()) && !acted),
            false => assert!(outcome.is_ok() && acted),
        }
        task.release().await;
    }
}
