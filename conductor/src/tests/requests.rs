//! What requests are answered, and what they leave behind.

use std::time::Duration;

use serde_json::json;
use wrought_rpc::Caller;
use wrought_rpc::Conductor;
use wrought_rpc::Kind;
use wrought_store::HistoryQuery;
use wrought_wire::state::BootDevice;
use wrought_wire::state::PowerState;
use wrought_wire::state::PowerTarget;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;
use super::rig::request;
use crate::machine::asked;

/// Every verb in every state: a legal one never answers "wrong state", an
/// illegal one always does, in Ironic's words.
#[tokio::test]
async fn each_state_and_verb() {
    let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
    for state in S::ALL {
        for verb in Verb::ALL {
            let mut fresh = crate::testing::node("fake-hardware");
            fresh.provision_state = *state;
            let uuid = fresh.uuid;
            rig.store.create_node(&fresh).await.unwrap();
            let answer = rig.service.provision(uuid, request(*verb)).await;
            match (asked(*state, *verb), answer) {
                (Err(_), Err(refused)) => {
                    assert_eq!(refused.kind, Kind::InvalidState);
                    assert_eq!(
                        refused.message,
                        format!(
                            "The requested action \"{verb}\" can not be performed on node \
                             \"{uuid}\" while it is in state \"{state}\"."
                        )
                    );
                    let kept = rig.store.node_by_uuid(uuid).await.unwrap().unwrap();
                    assert_eq!((kept.provision_state, kept.last_error), (*state, None));
                }
                (Ok(_), Ok(())) => {}
                (Ok(_), Err(refused)) => {
                    let known = [Kind::Unsupported, Kind::InvalidParameter];
                    assert!(known.contains(&refused.kind), "{state} {verb}: {refused}");
                }
                (Err(_), Ok(())) => panic!("{verb} accepted in {state}"),
            }
        }
    }
}

#[tokio::test]
async fn locked_nodes_answer_so() {
    let rig = Rig::new().await;
    let lease = rig
        .store
        .lock_node(rig.node, "other-host", Duration::from_secs(60))
        .await
        .unwrap();
    // Illegal and locked: the lock is the reason, as in Ironic.
    let refused = rig
        .service
        .provision(rig.node, request(Verb::Active))
        .await
        .unwrap_err();
    assert_eq!(refused.kind, Kind::NodeLocked);
    assert_eq!(
        refused.message,
        format!(
            "Node {} is locked by host other-host, please retry after the current operation is completed.",
            rig.node
        )
    );
    // A short conflict is waited for.
    let free = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        rig.store.unlock(lease).await.unwrap();
    };
    let (_, done) = tokio::join!(free, rig.service.provision(rig.node, request(Verb::Manage)));
    done.unwrap();
    rig.reaches(S::Manageable).await;
}

#[tokio::test]
async fn verification_tells_what_is_wrong() {
    let rig = Rig::new().await;
    rig.machine.knobs(|knobs| knobs.bmc_gone = true);
    rig.ask(Verb::Manage).await;
    rig.until("error", async || rig.node().await.last_error.is_some())
        .await;
    let node = rig.reaches(S::Enroll).await;
    assert_eq!(
        node.last_error.unwrap(),
        format!(
            "Failed to get power state for node {0}: BMC of node {0}: read the power state: the BMC \
             does not answer",
            rig.node
        )
    );
    assert!(!node.maintenance);
}

#[tokio::test]
async fn the_history_tells_who_asked() {
    for user in [Some("admin"), None] {
        let rig = Rig::new().await;
        rig.machine.knobs(|knobs| knobs.bmc_gone = true);
        let caller = Caller {
            user: user.map(str::to_owned),
        };
        caller.scope(rig.ask(Verb::Manage)).await;
        rig.until("error", async || rig.node().await.last_error.is_some())
            .await;
        let entries = rig.store.history(rig.node, &HistoryQuery::default()).await;
        let entries = entries.unwrap();
        assert!(!entries.is_empty());
        for entry in entries {
            assert_eq!((entry.user.as_deref(), entry.project), (user, None));
        }
    }
}

#[tokio::test]
async fn deploy_is_checked_before_it_begins() {
    let rig = Rig::new().await;
    rig.make_available().await;
    let refused = rig
        .service
        .provision(rig.node, request(Verb::Active))
        .await
        .unwrap_err();
    assert_eq!(refused.kind, Kind::InvalidParameter);
    let start = format!(
        "Failed to validate deploy or power info for node {}.",
        rig.node
    );
    assert!(refused.message.starts_with(&start) && refused.message.contains("image_source"));
    assert_eq!(rig.node().await.provision_state, S::Available);
    rig.set_image().await;
    rig.service
        .set_maintenance(rig.node, true, Some("broken fan".to_owned()))
        .await
        .unwrap();
    let refused = rig
        .service
        .provision(rig.node, request(Verb::Active))
        .await
        .unwrap_err();
    assert!(refused.message.contains("maintenance"), "{refused}");
    let checks = rig.service.validate(rig.node).await.unwrap();
    assert_eq!(checks["power"].result, Some(true));
    assert_eq!(checks["deploy"].result, Some(true));
    assert_eq!(checks["rescue"].result, Some(false));
    assert_eq!(checks.len(), 12);
}

#[tokio::test]
async fn an_old_version_of_a_node_is_refused() {
    let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
    let mut first = rig.node().await;
    let mut second = first.clone();
    first.extra.insert("first".to_owned(), json!(1));
    second.extra.insert("second".to_owned(), json!(2));
    let fields = vec!["extra".to_owned()];
    rig.service
        .update_node(first, fields.clone(), false)
        .await
        .unwrap();
    let refused = rig
        .service
        .update_node(second, fields, false)
        .await
        .unwrap_err();
    assert_eq!(refused.kind, Kind::Stale);
    let node = rig.node().await;
    assert!(node.extra.contains_key("first"));
    assert!(!node.extra.contains_key("second"));
    assert_eq!(node.reservation, None);
}

#[tokio::test]
async fn protected_nodes_stay() {
    let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
    rig.make_available().await;
    rig.ask(Verb::Active).await;
    let mut node = rig.reaches(S::Active).await;
    node.protected = true;
    rig.service
        .update_node(node, vec!["protected".to_owned()], false)
        .await
        .unwrap();
    for verb in [Verb::Deleted, Verb::Rebuild] {
        let refused = rig
            .service
            .provision(rig.node, request(verb))
            .await
            .unwrap_err();
        assert_eq!(refused.kind, Kind::Forbidden);
    }
    assert_eq!(
        rig.service.destroy_node(rig.node).await.unwrap_err().kind,
        Kind::Forbidden
    );
}

#[tokio::test]
async fn abort_at_once_and_after_a_step() {
    let rig = Rig::new().await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.machine
        .knobs(|knobs| knobs.step_time = Duration::from_millis(500));
    rig.ask(Verb::Provide).await;
    rig.until("step", async || {
        rig.machine.count("run deploy.erase_devices_metadata") == 1
    })
    .await;
    rig.until("wait", async || {
        rig.node().await.provision_state == S::CleanWait
    })
    .await;
    rig.ask(Verb::Abort).await;
    let node = rig.reaches(S::CleanFail).await;
    assert_eq!(
        node.last_error.as_deref(),
        Some("By request, the clean operation was aborted")
    );
    assert!(!node.maintenance);
    rig.until("off", async || !rig.machine.is_on()).await;
    rig.reaches(S::CleanFail).await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    // One that must not be cut short, and another that then does not run.
    let mut clean = request(Verb::Clean);
    clean.clean_steps = Some(vec![
        json!({"interface": "raid", "step": "create_configuration"}),
        json!({"interface": "deploy", "step": "erase_devices"}),
    ]);
    rig.service.provision(rig.node, clean).await.unwrap();
    rig.until("step", async || {
        rig.machine.count("run raid.create_configuration") == 1
    })
    .await;
    rig.until("wait", async || {
        rig.node().await.provision_state == S::CleanWait
    })
    .await;
    rig.ask(Verb::Abort).await;
    assert_eq!(rig.node().await.clean_step["abort_after"], true);
    let node = rig.reaches(S::CleanFail).await;
    assert_eq!(
        node.last_error.as_deref(),
        Some(
            "By request, the clean operation was aborted during or after the completion of step \
             \"raid.create_configuration\""
        )
    );
    assert_eq!(node.target_provision_state, Some(S::Manageable));
    assert_eq!(rig.machine.count("done raid.create_configuration"), 1);
    assert_eq!(rig.machine.count("run deploy.erase_devices"), 0);
}

#[tokio::test]
async fn power_and_boot_device() {
    let rig = Rig::new().await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.service
        .change_power(rig.node, PowerTarget::On, Some(5))
        .await
        .unwrap();
    rig.until("on", async || {
        let node = rig.node().await;
        node.power_state == Some(PowerState::On) && node.target_power_state.is_none()
    })
    .await;
    assert!(rig.machine.is_on());
    rig.service
        .set_boot_device(rig.node, BootDevice::Disk, true)
        .await
        .unwrap();
    let device = rig.service.boot_device(rig.node).await.unwrap();
    assert_eq!(
        (device.boot_device, device.persistent),
        (Some(BootDevice::Disk), Some(true))
    );
    let refused = rig
        .service
        .set_boot_device(rig.node, BootDevice::Floppy, true)
        .await
        .unwrap_err();
    assert_eq!(refused.message, "Invalid boot device floppy specified.");
    rig.machine.knobs(|knobs| knobs.bmc_gone = true);
    rig.service
        .change_power(rig.node, PowerTarget::Off, None)
        .await
        .unwrap();
    rig.until("error", async || rig.node().await.last_error.is_some())
        .await;
    let node = rig.reaches(S::Manageable).await;
    assert!(
        node.last_error
            .unwrap()
            .starts_with("Failed to change power state to 'power off'")
    );
    assert_eq!(node.target_power_state, None);
}

#[tokio::test]
async fn power_sync_keeps_the_recorded_state() {
    let rig = Rig::with(
        "redfish",
        |config| {
            config.conductor.power_sync_interval = 1;
            config.conductor.power_failure_recovery_interval = 1;
        },
        |_| {},
    )
    .await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.service
        .change_power(rig.node, PowerTarget::On, None)
        .await
        .unwrap();
    rig.until("on", async || {
        rig.node().await.power_state == Some(PowerState::On)
    })
    .await;
    // Somebody pulls the plug.
    rig.machine.agent_powers_off().await;
    rig.until("on again", async || rig.machine.is_on()).await;
    rig.machine.knobs(|knobs| knobs.bmc_gone = true);
    rig.until("maintenance", async || rig.node().await.maintenance)
        .await;
    let node = rig.node().await;
    assert_eq!(node.fault.as_deref(), Some("power failure"));
    rig.machine.knobs(|knobs| knobs.bmc_gone = false);
    rig.until("recovery", async || !rig.node().await.maintenance)
        .await;
    assert_eq!(rig.node().await.fault, None);
}

#[tokio::test]
async fn automated_cleaning_can_be_off() {
    let rig = Rig::with("redfish", |_| {}, |node| node.automated_clean = Some(false)).await;
    rig.make_available().await;
    assert!(
        rig.machine.logged().is_empty(),
        "{:?}",
        rig.machine.logged()
    );
}

#[tokio::test]
async fn too_much_at_once_is_refused() {
    let rig = Rig::with("redfish", |config| config.conductor.workers = 1, |_| {}).await;
    let _permit = rig.service.permit().unwrap();
    let refused = rig
        .service
        .provision(rig.node, request(Verb::Manage))
        .await
        .unwrap_err();
    assert_eq!(refused.kind, Kind::Busy);
    assert_eq!(rig.node().await.provision_state, S::Enroll);
}
