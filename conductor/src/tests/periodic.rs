//! The periodic tasks of Ironic's conductor, by name, each run at once.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;
use wrought_rpc::Conductor;
use wrought_store::Allocation;
use wrought_store::HistoryQuery;
use wrought_store::Registration;
use wrought_store::history::HistoryEntry;
use wrought_wire::state::AllocationState;
use wrought_wire::state::PowerState;
use wrought_wire::state::PowerTarget;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;
use crate::config::Config;
use crate::periodic::run_now;

/// A node in `manageable` whose machine is on.
async fn powered(settings: impl FnOnce(&mut Config)) -> Rig {
    let rig = Rig::with("redfish", settings, |_| {}).await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.service
        .change_power(rig.node, PowerTarget::On, None)
        .await
        .unwrap();
    rig.until("on", async || {
        let node = rig.node().await;
        node.power_state == Some(PowerState::On) && node.reservation.is_none()
    })
    .await;
    rig
}

async fn round(rig: &Rig, task: &str) {
    run_now(&rig.service, task).await;
}

async fn events(rig: &Rig) -> Vec<String> {
    let history = rig.store.history(rig.node, &HistoryQuery::default()).await;
    history.unwrap().into_iter().map(|row| row.event).collect()
}

/// A node that waits for a ramdisk that never comes.
async fn silent(verb: Verb, state: S, settings: impl FnOnce(&mut Config)) -> Rig {
    let rig = Rig::with("redfish", settings, |node| {
        node.automated_clean = Some(verb != Verb::Active);
    })
    .await;
    rig.machine.knobs(|knobs| knobs.dead = true);
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    if verb == Verb::Active {
        rig.make_available_again().await;
        rig.set_image().await;
    }
    rig.ask(verb).await;
    rig.reaches(state).await;
    rig
}

#[tokio::test]
async fn sync_power_states_reconciles_record_and_machine() {
    let rig = powered(|_| {}).await;
    round(&rig, "sync_power_states").await;
    assert!(rig.machine.is_on());
    // Somebody pulls the plug.
    rig.machine.agent_powers_off().await;
    round(&rig, "sync_power_states").await;
    assert!(rig.machine.is_on(), "put back");
    assert_eq!(rig.node().await.power_state, Some(PowerState::On));
}

#[tokio::test]
async fn sync_power_states_follows_the_machine_where_it_is_not_forced() {
    let rig = powered(|config| config.conductor.force_power_state_during_sync = false).await;
    rig.machine.agent_powers_off().await;
    round(&rig, "sync_power_states").await;
    assert!(!rig.machine.is_on());
    assert_eq!(rig.node().await.power_state, Some(PowerState::Off));
}

#[tokio::test]
async fn sync_power_states_leaves_alone_what_is_not_to_be_switched_off() {
    let rig = powered(|_| {}).await;
    let mut node = rig.node().await;
    node.disable_power_off = true;
    let fields = vec!["disable_power_off".to_owned()];
    rig.service.update_node(node, fields, false).await.unwrap();
    rig.machine.agent_powers_off().await;
    round(&rig, "sync_power_states").await;
    assert_eq!(rig.node().await.power_state, Some(PowerState::Off));
    // Nor is a node in maintenance looked at.
    rig.service
        .set_maintenance(rig.node, true, None)
        .await
        .unwrap();
    rig.machine.knobs(|knobs| knobs.bmc_gone = true);
    for _ in 0..5 {
        round(&rig, "sync_power_states").await;
    }
    assert_eq!(rig.node().await.fault, None);
}

#[tokio::test]
async fn sync_power_states_gives_up_after_three_attempts() {
    let rig = powered(|_| {}).await;
    rig.machine.knobs(|knobs| knobs.bmc_gone = true);
    for _ in 0..3 {
        round(&rig, "sync_power_states").await;
        assert!(!rig.node().await.maintenance);
    }
    round(&rig, "sync_power_states").await;
    let node = rig.node().await;
    assert_eq!(node.fault.as_deref(), Some("power failure"));
    assert_eq!(node.maintenance_reason, node.last_error);
    let reason = node.maintenance_reason.unwrap();
    assert!(
        reason.contains("max retries exceeded") && reason.contains("does not answer"),
        "{reason}"
    );
    assert_eq!(node.provision_state, S::Manageable);
}

#[tokio::test]
async fn a_machine_that_does_not_stay_on_goes_into_maintenance() {
    let rig = powered(|_| {}).await;
    for _ in 0..3 {
        rig.machine.agent_powers_off().await;
        round(&rig, "sync_power_states").await;
        assert!(rig.machine.is_on());
    }
    rig.machine.agent_powers_off().await;
    round(&rig, "sync_power_states").await;
    let node = rig.node().await;
    assert_eq!(node.fault.as_deref(), Some("power failure"));
    assert_eq!(node.power_state, Some(PowerState::Off), "as it was found");
}

#[tokio::test]
async fn power_failure_recovery_takes_nodes_out_of_maintenance() {
    let rig = powered(|config| config.conductor.power_state_sync_max_retries = 0).await;
    rig.machine.knobs(|knobs| knobs.bmc_gone = true);
    round(&rig, "sync_power_states").await;
    assert!(rig.node().await.maintenance);
    round(&rig, "power_failure_recovery").await;
    assert!(rig.node().await.maintenance);
    rig.machine.knobs(|knobs| knobs.bmc_gone = false);
    round(&rig, "sync_power_states").await;
    assert!(rig.node().await.maintenance, "that is not its work");
    round(&rig, "power_failure_recovery").await;
    let node = rig.node().await;
    assert_eq!(
        (node.maintenance, node.maintenance_reason, node.fault),
        (false, None, None)
    );
}

#[tokio::test]
async fn power_failure_recovery_leaves_other_maintenance() {
    let rig = powered(|_| {}).await;
    rig.service
        .set_maintenance(rig.node, true, Some("mine".to_owned()))
        .await
        .unwrap();
    round(&rig, "power_failure_recovery").await;
    assert!(rig.node().await.maintenance);
}

#[tokio::test]
async fn handle_sync_power_status_marks_what_was_compared() {
    let rig = powered(|_| {}).await;
    let before = rig.node().await.updated_at;
    assert_eq!(rig.store.last_power_sync(rig.node).await.unwrap(), None);
    round(&rig, "sync_power_states").await;
    round(&rig, "handle_sync_power_status").await;
    let marked = rig.store.last_power_sync(rig.node).await.unwrap().unwrap();
    assert!(marked <= Timestamp::now());
    assert_eq!(rig.node().await.updated_at, before, "nodes are not written");
    // A BMC that does not answer leaves the mark as it is.
    rig.machine.knobs(|knobs| knobs.bmc_gone = true);
    round(&rig, "sync_power_states").await;
    round(&rig, "handle_sync_power_status").await;
    let again = rig.store.last_power_sync(rig.node).await.unwrap();
    assert_eq!(again, Some(marked));
}

#[tokio::test]
async fn check_deploy_timeouts_fails_silent_deploys() {
    let rig = silent(Verb::Active, S::DeployWait, |config| {
        config.conductor.deploy_callback_timeout = 1;
    })
    .await;
    round(&rig, "check_deploy_timeouts").await;
    assert_eq!(rig.node().await.provision_state, S::DeployWait, "too early");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    // Others have nothing to do with it.
    round(&rig, "check_clean_timeouts").await;
    assert_eq!(rig.node().await.provision_state, S::DeployWait);
    round(&rig, "check_deploy_timeouts").await;
    let node = rig.reaches(S::DeployFail).await;
    let expected = format!(
        "Timeout reached while waiting for callback for node {}",
        rig.node
    );
    assert_eq!(node.last_error, Some(expected));
}

#[tokio::test]
async fn check_clean_timeouts_fails_silent_cleanings() {
    let rig = silent(Verb::Provide, S::CleanWait, |config| {
        config.conductor.clean_callback_timeout = 1;
    })
    .await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    round(&rig, "check_clean_timeouts").await;
    let node = rig.reaches(S::CleanFail).await;
    let error = node.last_error.unwrap();
    assert!(
        error.starts_with("Timeout reached while cleaning"),
        "{error}"
    );
}

#[tokio::test]
async fn time_outs_of_nought_never_come() {
    let rig = silent(Verb::Provide, S::CleanWait, |config| {
        config.conductor.clean_callback_timeout = 0;
    })
    .await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    round(&rig, "check_clean_timeouts").await;
    assert_eq!(rig.node().await.provision_state, S::CleanWait);
}

#[tokio::test]
async fn time_outs_wait_for_the_lock() {
    let rig = silent(Verb::Provide, S::CleanWait, |config| {
        config.conductor.clean_callback_timeout = 1;
    })
    .await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let lease = rig
        .store
        .lock_node(rig.node, "somebody", Duration::from_secs(60))
        .await
        .unwrap();
    round(&rig, "check_clean_timeouts").await;
    assert_eq!(rig.node().await.provision_state, S::CleanWait);
    rig.store.unlock(lease).await.unwrap();
    round(&rig, "check_clean_timeouts").await;
    rig.reaches(S::CleanFail).await;
}

/// A node whose ramdisk was last heard of two hours ago.
async fn left_in(state: S, target: S) -> Rig {
    let rig = Rig::new().await;
    let lease = rig
        .store
        .lock_node(rig.node, "test", Duration::from_secs(60))
        .await
        .unwrap();
    let mut node = rig.node().await;
    node.provision_state = state;
    node.target_provision_state = Some(target);
    node.provision_updated_at = Some(Timestamp::now() - Duration::from_secs(7200));
    let waits = json!({"for": "agent", "then": "begin"});
    node.driver_internal_info
        .insert("wrought_wait".to_owned(), waits);
    rig.store.save_node(&lease, &mut node).await.unwrap();
    rig.store.unlock(lease).await.unwrap();
    rig
}

#[tokio::test]
async fn check_service_timeouts_fails_silent_services() {
    let rig = left_in(S::ServiceWait, S::Active).await;
    round(&rig, "check_service_timeouts").await;
    let error = rig.reaches(S::ServiceFail).await.last_error.unwrap();
    assert!(
        error.starts_with("Timeout reached while servicing the node."),
        "{error}"
    );
}

#[tokio::test]
async fn check_rescue_timeouts_fails_silent_rescues() {
    let rig = left_in(S::RescueWait, S::Rescue).await;
    round(&rig, "check_rescue_timeouts").await;
    let error = rig.reaches(S::RescueFail).await.last_error.unwrap();
    assert!(
        error.starts_with("Timeout reached while waiting for rescue ramdisk callback"),
        "{error}"
    );
}

#[tokio::test]
async fn check_inspect_timeouts_fails_silent_inspections() {
    let rig = left_in(S::InspectWait, S::Manageable).await;
    round(&rig, "check_inspect_timeouts").await;
    let error = rig.reaches(S::InspectFail).await.last_error.unwrap();
    assert!(
        error.starts_with("Timeout reached while inspecting the node."),
        "{error}"
    );
}

#[tokio::test]
async fn check_allocations_takes_up_those_of_nobody() {
    let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
    let allocation = Allocation {
        resource_class: Some("none".to_owned()),
        ..Allocation::default()
    };
    rig.store.insert(&allocation).await.unwrap();
    round(&rig, "check_allocations").await;
    rig.until("an end", async || {
        let read = rig.store.row::<Allocation>(allocation.uuid).await;
        read.unwrap().unwrap().state == AllocationState::Error
    })
    .await;
}

#[tokio::test]
async fn trim_node_history_keeps_the_newest() {
    let rig = Rig::with(
        "fake-hardware",
        |config| {
            config.conductor.node_history_max_entries = 3;
            config.conductor.node_history_cleanup_batch_count = 2;
        },
        |_| {},
    )
    .await;
    for number in 0..10 {
        let entry = HistoryEntry {
            uuid: Uuid::new_v4(),
            node: rig.node,
            severity: None,
            event_type: None,
            event: number.to_string(),
            user: None,
            conductor: None,
            created_at: Timestamp::now(),
            state: None,
            target: None,
            project: None,
            duration: None,
        };
        rig.store.add_history(&entry).await.unwrap();
    }
    round(&rig, "trim_node_history").await;
    assert_eq!(events(&rig).await, ["7", "8", "9"]);
}

#[tokio::test]
async fn trim_node_history_leaves_what_is_young() {
    let rig = Rig::with(
        "fake-hardware",
        |config| {
            config.conductor.node_history_max_entries = 1;
            config.conductor.node_history_minimum_days = 1;
        },
        |_| {},
    )
    .await;
    rig.make_available().await;
    let before = events(&rig).await;
    assert!(before.len() > 1);
    round(&rig, "trim_node_history").await;
    assert_eq!(events(&rig).await, before);
}

#[tokio::test]
async fn clean_up_conductors_forgets_the_silent() {
    let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
    let store = &rig.store;
    let old = Registration::new("old", "", &[]);
    store.register_conductor(&old).await.unwrap();
    round(&rig, "clean_up_conductors").await;
    assert_eq!(
        store.conductors().await.unwrap().len(),
        2,
        "not silent for long"
    );
    let config = rig.service.config.conductor.conductor_cleanup_timeout;
    assert_eq!(config, 14 * 86400);
    let later = Timestamp::now() + Duration::from_secs(60);
    let gone = store.forget_conductors("host-1", later, 50).await.unwrap();
    assert_eq!(gone, ["old"]);
}

#[tokio::test]
async fn retry_pxe_boot_starts_a_machine_again_that_nobody_called_from() {
    let rig = silent(Verb::Provide, S::CleanWait, |config| {
        config.conductor.boot_retry_timeout = 1;
    })
    .await;
    round(&rig, "retry_pxe_boot").await;
    assert_eq!(rig.machine.count("power on"), 1, "too early");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    rig.machine.knobs(|knobs| knobs.dead = false);
    round(&rig, "retry_pxe_boot").await;
    rig.reaches(S::Available).await;
    assert_eq!(rig.machine.count("power on"), 2);
    assert_eq!(rig.machine.count("boot device pxe once"), 2);
    let events = events(&rig).await;
    assert!(
        events.iter().any(|event| event.contains("started again")),
        "{events:#?}"
    );
}

#[tokio::test]
async fn retry_pxe_boot_leaves_a_machine_whose_ramdisk_has_its_token() {
    let rig = silent(Verb::Provide, S::CleanWait, |config| {
        config.conductor.boot_retry_timeout = 1;
    })
    .await;
    rig.service.lookup(rig.node).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    round(&rig, "retry_pxe_boot").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(rig.machine.count("power on"), 1);
}

#[tokio::test]
async fn check_stuck_nodes_goes_on_with_what_nobody_has() {
    let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
    let lease = rig
        .store
        .lock_node(rig.node, "dead", Duration::from_secs(60))
        .await
        .unwrap();
    let mut node = rig.node().await;
    node.provision_state = S::Cleaning;
    node.target_provision_state = Some(S::Available);
    rig.store.save_node(&lease, &mut node).await.unwrap();
    round(&rig, "check_stuck_nodes").await;
    assert_eq!(rig.node().await.provision_state, S::Cleaning, "locked");
    rig.store.unlock(lease).await.unwrap();
    round(&rig, "check_stuck_nodes").await;
    rig.reaches(S::Available).await;
}

#[tokio::test]
async fn tasks_tell_how_they_fare() {
    let rig = powered(|_| {}).await;
    round(&rig, "sync_power_states").await;
    let text = rig.service.metrics().await.unwrap();
    for line in [
        "# TYPE wrought_periodic_task_runs_total counter",
        "wrought_periodic_task_runs_total{task=\"sync_power_states\"} 1",
        "wrought_periodic_task_failures_total{task=\"sync_power_states\"} 0",
        "wrought_periodic_task_nodes_total{task=\"sync_power_states\"} 1",
        "wrought_periodic_task_running{task=\"sync_power_states\"} 0",
        "wrought_workers 64",
        "wrought_queued_nodes{operation=\"deploy\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let took = text
        .lines()
        .find(|line| line.starts_with("wrought_periodic_task_last_duration_seconds{task=\"sync_p"));
    assert!(took.is_some(), "{text}");
    assert!(!json!(text).to_string().contains("bmc.test"), "no secrets");
}
