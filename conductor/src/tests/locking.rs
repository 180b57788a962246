//! The rules of locks on nodes, as Ironic's documentation has them.

use std::time::Duration;
use std::time::Instant;

use wrought_rpc::Conductor;
use wrought_rpc::Kind;
use wrought_store::LockError;
use wrought_wire::state::BootDevice;
use wrought_wire::state::PowerState;
use wrought_wire::state::PowerTarget;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;
use super::rig::request;
use crate::error::Error;
use crate::periodic::run_now;
use crate::task::Task;

const LONG: Duration = Duration::from_secs(60);

async fn managed(patience: Duration) -> Rig {
    let rig = Rig::with("redfish", |config| config.pace.lock_wait = patience, |_| {}).await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig
}

#[tokio::test]
async fn an_exclusive_lock_has_one_holder_at_a_time() {
    let rig = managed(LONG).await;
    let first = Task::take(&rig.service, rig.node, Duration::ZERO).await;
    let first = first.unwrap();
    assert_eq!(rig.node().await.reservation.as_deref(), Some("host-1"));
    let second = Task::take(&rig.service, rig.node, Duration::ZERO).await;
    assert!(
        matches!(second, Err(Error::Locked { .. })),
        "not even of the same host"
    );
    let other = rig.store.lock_node(rig.node, "host-2", LONG).await;
    assert!(matches!(other, Err(LockError::Held { .. })));
    first.release().await;
    assert_eq!(rig.node().await.reservation, None);
    let lease = rig.store.lock_node(rig.node, "host-2", LONG).await.unwrap();
    let ours = Task::take(&rig.service, rig.node, Duration::ZERO).await;
    let held = ours.unwrap_err().to_string();
    assert!(held.contains("locked by host host-2"), "{held}");
    rig.store.unlock(lease).await.unwrap();
}

/// What Ironic calls a shared lock: nothing is taken, nothing is waited for.
#[tokio::test]
async fn reading_needs_no_lock() {
    let rig = managed(LONG).await;
    let lease = rig.store.lock_node(rig.node, "host-2", LONG).await.unwrap();
    let began = Instant::now();
    rig.service.boot_device(rig.node).await.unwrap();
    rig.service.validate(rig.node).await.unwrap();
    // The power synchronisation passes a locked node over.
    rig.machine.agent_powers_off().await;
    run_now(&rig.service, "sync_power_states").await;
    assert!(began.elapsed() < LONG / 2);
    assert_eq!(rig.node().await.reservation.as_deref(), Some("host-2"));
    rig.store.unlock(lease).await.unwrap();
}

#[tokio::test]
async fn the_power_synchronisation_changes_nothing_without_the_lock() {
    let rig = managed(LONG).await;
    rig.service
        .change_power(rig.node, PowerTarget::On, None)
        .await
        .unwrap();
    rig.until("on", async || {
        let node = rig.node().await;
        node.power_state == Some(PowerState::On) && node.reservation.is_none()
    })
    .await;
    rig.machine.agent_powers_off().await;
    let lease = rig.store.lock_node(rig.node, "host-2", LONG).await.unwrap();
    run_now(&rig.service, "sync_power_states").await;
    assert!(!rig.machine.is_on());
    rig.store.unlock(lease).await.unwrap();
    run_now(&rig.service, "sync_power_states").await;
    assert!(rig.machine.is_on());
}

#[tokio::test]
async fn changes_need_the_lock() {
    let rig = managed(Duration::from_millis(100)).await;
    let lease = rig.store.lock_node(rig.node, "host-2", LONG).await.unwrap();
    let conductor = &rig.service;
    let refused = [
        conductor.provision(rig.node, request(Verb::Provide)).await,
        conductor
            .change_power(rig.node, PowerTarget::On, None)
            .await,
        conductor.set_maintenance(rig.node, true, None).await,
        conductor
            .set_boot_device(rig.node, BootDevice::Pxe, false)
            .await,
        conductor.destroy_node(rig.node).await,
        conductor
            .update_node(rig.node().await, vec!["name".to_owned()], false)
            .await
            .map(drop),
    ];
    for (number, refused) in refused.into_iter().enumerate() {
        let error = refused.unwrap_err();
        assert_eq!(error.kind, Kind::NodeLocked, "{number}: {}", error.message);
        assert!(error.message.contains("host-2"), "{}", error.message);
    }
    let node = rig.node().await;
    assert_eq!(
        (node.provision_state, node.maintenance),
        (S::Manageable, false)
    );
    rig.store.unlock(lease).await.unwrap();
}

#[tokio::test]
async fn a_request_waits_a_moment_for_the_lock() {
    let rig = managed(Duration::from_secs(20)).await;
    let lease = rig.store.lock_node(rig.node, "host-2", LONG).await.unwrap();
    let asked = tokio::spawn({
        let (conductor, node) = (rig.service.clone(), rig.node);
        async move { conductor.change_power(node, PowerTarget::On, None).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!asked.is_finished());
    rig.store.unlock(lease).await.unwrap();
    asked.await.unwrap().unwrap();
    rig.until("on", async || rig.machine.is_on()).await;
}

#[tokio::test]
async fn the_lock_outlives_the_request_until_the_work_has_ended() {
    let rig = managed(LONG).await;
    rig.machine
        .knobs(|knobs| knobs.bmc_delay = Duration::from_millis(300));
    rig.service
        .change_power(rig.node, PowerTarget::On, None)
        .await
        .unwrap();
    let node = rig.node().await;
    assert_eq!(node.reservation.as_deref(), Some("host-1"));
    assert_eq!(node.target_power_state, Some(PowerState::On));
    rig.until("the end", async || rig.node().await.reservation.is_none())
        .await;
    assert_eq!(rig.node().await.power_state, Some(PowerState::On));
}

/// Nobody else can free it, and nobody else's lock is freed.
#[tokio::test]
async fn only_the_holder_releases_a_lock() {
    let rig = managed(LONG).await;
    let old = rig
        .store
        .lock_node(rig.node, "host-2", Duration::from_millis(10))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(30)).await;
    let task = Task::take(&rig.service, rig.node, Duration::ZERO).await;
    let task = task.unwrap();
    rig.store.unlock(old.clone()).await.unwrap();
    assert_eq!(rig.node().await.reservation.as_deref(), Some("host-1"));
    let mut node = rig.node().await;
    let fenced = rig.store.save_node(&old, &mut node).await;
    assert!(matches!(
        fenced,
        Err(wrought_store::Error::LeaseLost { .. })
    ));
    task.release().await;
}

#[tokio::test]
async fn the_lock_of_a_conductor_that_died_runs_out() {
    let rig = managed(Duration::from_secs(20)).await;
    // Another host that crashes now: it renews its lock no more.
    rig.store
        .lock_node(rig.node, "host-2", Duration::from_millis(700))
        .await
        .unwrap();
    let began = Instant::now();
    rig.ask(Verb::Provide).await;
    assert!(began.elapsed() < Duration::from_secs(10));
    rig.reaches(S::Available).await;
}

#[tokio::test]
async fn a_restarted_conductor_frees_its_own_locks() {
    let mut rig = managed(Duration::from_millis(100)).await;
    rig.store.lock_node(rig.node, "HOST-1", LONG).await.unwrap();
    rig.machine.crash_conductor().await;
    rig.restart().await;
    assert_eq!(rig.node().await.reservation, None);
    rig.ask(Verb::Provide).await;
    rig.reaches(S::Available).await;
}
