//! Nodes that are put into maintenance in the middle of something: nothing
//! hangs without a word.

use std::time::Duration;

use wrought_rpc::Conductor;
use wrought_rpc::Kind;
use wrought_store::HistoryQuery;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;
use super::rig::request;
use crate::config::Config;
use crate::periodic::run_now;

async fn at_write(settings: impl FnOnce(&mut Config)) -> Rig {
    let rig = Rig::with("redfish", settings, |_| {}).await;
    rig.make_available().await;
    rig.machine
        .knobs(|knobs| knobs.step_time = Duration::from_millis(1200));
    rig.set_image().await;
    rig.ask(Verb::Active).await;
    rig.until("write", async || {
        let node = rig.node().await;
        rig.machine.count("run deploy.write_image") == 1 && node.provision_state == S::DeployWait
    })
    .await;
    rig
}

async fn set(rig: &Rig, on: bool) {
    rig.service
        .set_maintenance(rig.node, on, None)
        .await
        .unwrap();
}

async fn events(rig: &Rig) -> Vec<String> {
    let history = rig.store.history(rig.node, &HistoryQuery::default()).await;
    history.unwrap().into_iter().map(|row| row.event).collect()
}

#[tokio::test]
async fn an_operation_goes_on_in_maintenance_and_says_so() {
    let rig = at_write(|_| {}).await;
    set(&rig, true).await;
    let node = rig.reaches(S::Active).await;
    assert!(node.maintenance, "nobody took it out");
    assert_eq!(node.last_error, None);
    let events = events(&rig).await;
    let expected = "Put into maintenance in state wait call-back: the operation goes on, and so do \
                    its time-outs";
    assert!(events.iter().any(|event| event == expected), "{events:#?}");
}

#[tokio::test]
async fn time_outs_hold_in_maintenance() {
    let rig = Rig::with(
        "redfish",
        |config| config.conductor.clean_callback_timeout = 1,
        |_| {},
    )
    .await;
    rig.machine.knobs(|knobs| knobs.dead = true);
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.ask(Verb::Provide).await;
    rig.reaches(S::CleanWait).await;
    set(&rig, true).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    run_now(&rig.service, "check_clean_timeouts").await;
    let node = rig.reaches(S::CleanFail).await;
    assert!(node.last_error.unwrap().starts_with("Timeout reached"));
    assert!(node.maintenance);
}

#[tokio::test]
async fn where_it_is_not_allowed_the_operation_fails_at_once() {
    let rig = at_write(|config| config.conductor.allow_provisioning_in_maintenance = false).await;
    set(&rig, true).await;
    let node = rig.reaches(S::DeployFail).await;
    assert_eq!(
        node.last_error.as_deref(),
        Some("Deployment aborted as node is in maintenance mode")
    );
    let events = events(&rig).await;
    assert!(
        events
            .iter()
            .any(|event| event.ends_with("the operation is stopped")),
        "{events:#?}"
    );
    rig.until("off", async || !rig.machine.is_on()).await;
}

#[tokio::test]
async fn where_it_is_not_allowed_nothing_begins_either() {
    let rig = Rig::with(
        "fake-hardware",
        |config| config.conductor.allow_provisioning_in_maintenance = false,
        |_| {},
    )
    .await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    set(&rig, true).await;
    let refused = rig
        .service
        .provision(rig.node, request(Verb::Provide))
        .await
        .unwrap_err();
    assert_eq!(refused.kind, Kind::InvalidParameter);
    assert!(
        refused.message.contains("maintenance"),
        "{}",
        refused.message
    );
    set(&rig, false).await;
    rig.ask(Verb::Provide).await;
    rig.reaches(S::Available).await;
}

#[tokio::test]
async fn a_ramdisk_on_a_disc_that_restarts_by_itself_is_recognised() {
    let rig = Rig::with(
        "redfish",
        |_| {},
        |node| {
            node.interfaces
                .insert("boot".to_owned(), "redfish-virtual-media".to_owned());
        },
    )
    .await;
    rig.make_available().await;
    rig.machine
        .knobs(|knobs| knobs.step_time = Duration::from_millis(1200));
    rig.set_image().await;
    rig.ask(Verb::Active).await;
    rig.until("write", async || {
        let node = rig.node().await;
        rig.machine.count("run deploy.write_image") == 1 && node.provision_state == S::DeployWait
    })
    .await;
    // It has its token still, but another certificate and none of its work.
    rig.machine.ramdisk_restarts_from_disc();
    rig.machine
        .knobs(|knobs| knobs.step_time = Duration::from_millis(50));
    rig.reaches(S::Active).await;
    assert_eq!(rig.machine.count("run deploy.write_image"), 2);
    assert_eq!(
        rig.machine.count("done deploy.write_image"),
        1,
        "the lost one is not counted as done"
    );
}
