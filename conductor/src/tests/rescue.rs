//! Rescuing, and the way back.

use std::time::Duration;

use serde_json::Value;
use serde_json::json;
use wrought_rpc::Conductor;
use wrought_rpc::Kind;
use wrought_rpc::ProvisionRequest;
use wrought_store::HistoryQuery;
use wrought_store::node::Node;
use wrought_wire::secret::Secret;
use wrought_wire::state::PowerState;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;
use super::rig::request;
use crate::Config;

fn rescue() -> ProvisionRequest {
    ProvisionRequest {
        rescue_password: Some(Secret::new("secret12")),
        ..request(Verb::Rescue)
    }
}

async fn ask(rig: &Rig) {
    rig.service.provision(rig.node, rescue()).await.unwrap();
}

/// A node with an instance.
async fn deployed() -> Rig {
    deployed_with(|_| {}).await
}

async fn deployed_with(settings: impl FnOnce(&mut Config)) -> Rig {
    let rig = Rig::with("redfish", settings, |node| {
        node.automated_clean = Some(false);
        let agent = "agent".to_owned();
        node.interfaces.insert("rescue".to_owned(), agent);
    })
    .await;
    rig.make_available().await;
    rig.deploy().await;
    rig
}

fn has_no_password(node: &Node) {
    let text = serde_json::to_string(node).unwrap();
    assert!(!text.contains("rescue_password"), "{text}");
    assert!(
        !text.contains("secret12") && !text.contains("$5$"),
        "{text}"
    );
}

#[tokio::test]
async fn and_back_to_the_instance() {
    let rig = deployed().await;
    let before = rig.machine.logged().len();
    ask(&rig).await;
    let node = rig.node().await;
    assert_eq!(node.target_provision_state, Some(S::Rescue));
    let node = rig.reaches(S::Rescue).await;
    has_no_password(&node);
    assert_eq!((node.target_provision_state, node.last_error), (None, None));
    assert!(!node.driver_internal_info.contains_key("agent_url"));
    let log = rig.machine.logged().split_off(before);
    let log: Vec<&str> = log.iter().map(String::as_str).collect();
    assert_eq!(
        log,
        [
            "power off",
            "boot device pxe once",
            "power on",
            "boots pxe",
            "run rescue.finalize_rescue",
        ]
    );
    let body = rig.machine.body("rescue.finalize_rescue");
    let given = body["params"]["rescue_password"].as_str().unwrap();
    assert!(given.starts_with("$5$"), "{given}");
    assert_eq!(body["params"]["hashed"], true);
    let before = rig.machine.logged().len();
    rig.ask(Verb::Unrescue).await;
    let node = rig.reaches(S::Active).await;
    assert_eq!(node.power_state, Some(PowerState::On));
    assert!(!node.driver_internal_info.contains_key("wrought_boot"));
    assert!(!node.instance_info.is_empty());
    let log = rig.machine.logged().split_off(before);
    let log: Vec<&str> = log.iter().map(String::as_str).collect();
    let back = [
        "power off",
        "boot device disk always",
        "power on",
        "boots disk",
    ];
    assert_eq!(log, back);
}

#[tokio::test]
async fn the_password_is_hashed_as_configured_and_never_in_the_clear() {
    for (hash, prefix) in [
        (crate::config::PasswordHash::Sha256, "$5$"),
        (crate::config::PasswordHash::Sha512, "$6$"),
    ] {
        let rig = deployed_with(|config| {
            config.conductor.rescue_password_hash_algorithm = hash;
        })
        .await;
        rig.machine.knobs(|knobs| knobs.dead = true);
        ask(&rig).await;
        let node = rig.reaches(S::RescueWait).await;
        let kept = node.instance_info["hashed_rescue_password"].as_str();
        assert!(kept.unwrap().starts_with(prefix));
        assert!(!serde_json::to_string(&node).unwrap().contains("secret12"));
        let shown = crate::agent::view::node(&node);
        assert_eq!(shown["instance_info"]["hashed_rescue_password"], "******");
    }
}

#[tokio::test]
async fn an_old_ramdisk_gets_the_password_itself_only_where_that_is_allowed() {
    for (required, kept) in [(true, false), (false, true)] {
        let rig = deployed_with(|config| {
            config.conductor.require_rescue_password_hashed = required;
        })
        .await;
        rig.machine.knobs(|knobs| knobs.no_login = true);
        ask(&rig).await;
        let node = rig.node().await;
        assert_eq!(node.instance_info.contains_key("rescue_password"), kept);
        let node = rig.reaches(S::RescueFail).await;
        has_no_password(&node);
        let body = rig.machine.body("rescue.finalize_rescue");
        assert_eq!(body["params"]["hashed"], required, "the last try");
        assert_eq!(
            rig.machine.count("run rescue.finalize_rescue"),
            if required { 1 } else { 2 }
        );
    }
}

#[tokio::test]
async fn of_fake_hardware() {
    let rig = Rig::with(
        "fake-hardware",
        |_| {},
        |node| node.provision_state = S::Active,
    )
    .await;
    for _ in 0..2 {
        ask(&rig).await;
        let node = rig.reaches(S::Rescue).await;
        has_no_password(&node);
    }
    rig.ask(Verb::Unrescue).await;
    rig.reaches(S::Active).await;
}

#[tokio::test]
async fn requests_are_refused() {
    let rig = Rig::with("redfish", |_| {}, |node| node.provision_state = S::Active).await;
    let refused = rig.service.provision(rig.node, rescue()).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Unsupported, "no-rescue: {refused}");
    let rig = Rig::with(
        "fake-hardware",
        |_| {},
        |node| node.provision_state = S::Active,
    )
    .await;
    let refused = rig.service.provision(rig.node, request(Verb::Rescue)).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, Kind::InvalidParameter);
    assert!(refused.message.contains("rescue_password"), "{refused}");
    let maintenance = rig.service.set_maintenance(rig.node, true, None);
    maintenance.await.unwrap();
    let refused = rig.service.provision(rig.node, rescue()).await.unwrap_err();
    assert!(refused.message.contains("maintenance"), "{refused}");
    has_no_password(&rig.node().await);
}

#[tokio::test]
async fn a_ramdisk_without_a_login_fails_it() {
    let rig = deployed().await;
    rig.machine.knobs(|knobs| knobs.no_login = true);
    ask(&rig).await;
    let node = rig.reaches(S::RescueFail).await;
    has_no_password(&node);
    let error = node.last_error.clone().unwrap();
    assert!(
        error.starts_with("Failed to rescue: ") && error.contains("this ramdisk has no login"),
        "{error}"
    );
    assert!(!node.maintenance);
    rig.until("off", async || !rig.machine.is_on()).await;
    let node = rig.reaches(S::RescueFail).await;
    assert!(!node.driver_internal_info.contains_key("wrought_boot"));
    rig.machine.knobs(|knobs| knobs.no_login = false);
    ask(&rig).await;
    rig.reaches(S::Rescue).await;
}

#[tokio::test]
async fn a_bmc_that_does_not_answer_fails_it_and_the_way_back() {
    let rig = deployed().await;
    rig.machine.knobs(|knobs| knobs.bmc_gone = true);
    ask(&rig).await;
    let node = rig.reaches(S::RescueFail).await;
    has_no_password(&node);
    assert!(node.last_error.unwrap().contains("does not answer"));
    rig.ask(Verb::Unrescue).await;
    let node = rig.reaches(S::UnrescueFail).await;
    let error = node.last_error.clone().unwrap();
    assert!(error.starts_with("Failed to unrescue: "), "{error}");
    assert_eq!(node.target_provision_state, Some(S::Active));
    rig.machine.knobs(|knobs| knobs.bmc_gone = false);
    rig.ask(Verb::Unrescue).await;
    rig.reaches(S::Active).await;
    assert_eq!(rig.machine.logged().last().unwrap(), "boots disk");
}

#[tokio::test]
async fn an_abort_puts_the_ramdisk_away() {
    let rig = deployed().await;
    rig.machine.knobs(|knobs| knobs.dead = true);
    ask(&rig).await;
    rig.reaches(S::RescueWait).await;
    rig.ask(Verb::Abort).await;
    let node = rig.reaches(S::RescueFail).await;
    has_no_password(&node);
    assert_eq!(
        node.last_error, None,
        "as in Ironic: only the history tells"
    );
    assert!(!node.maintenance && !rig.machine.is_on());
    assert!(!node.driver_internal_info.contains_key("wrought_boot"));
    let history = rig
        .store
        .history(rig.node, &HistoryQuery::default())
        .await
        .unwrap();
    let text = "By request, the rescue operation was aborted.";
    assert!(history.iter().any(|entry| entry.event == text));
    rig.ask(Verb::Unrescue).await;
    rig.reaches(S::Active).await;
}

#[tokio::test]
async fn an_abort_that_fails_holds_the_node_back() {
    let rig = deployed().await;
    rig.machine.knobs(|knobs| knobs.dead = true);
    ask(&rig).await;
    rig.reaches(S::RescueWait).await;
    rig.machine.knobs(|knobs| knobs.bmc_gone = true);
    rig.ask(Verb::Abort).await;
    let node = rig.reaches(S::RescueFail).await;
    assert!(node.maintenance, "{:?}", node.last_error);
    assert_eq!(node.fault.as_deref(), Some("rescue abort failure"));
}

#[tokio::test]
async fn silence_ends_in_a_time_out() {
    let rig = deployed_with(|config| {
        config.conductor.check_interval = 1;
        config.conductor.check_rescue_state_interval = 1;
        config.conductor.rescue_callback_timeout = 1;
    })
    .await;
    rig.machine.knobs(|knobs| knobs.dead = true);
    ask(&rig).await;
    let node = rig.reaches(S::RescueFail).await;
    has_no_password(&node);
    assert_eq!(
        node.last_error.as_deref(),
        Some("Timeout reached while waiting for rescue ramdisk callback for node")
    );
    rig.until("off", async || !rig.machine.is_on()).await;
    // From a failed rescue straight back to manageable, as Wrought allows.
    rig.reaches(S::RescueFail).await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
}

#[tokio::test]
async fn an_instance_is_torn_down_from_each_state_of_a_rescue() {
    for state in [S::RescueWait, S::Rescue, S::RescueFail, S::UnrescueFail] {
        let rig = deployed().await;
        match state {
            S::RescueWait => rig.machine.knobs(|knobs| knobs.dead = true),
            S::RescueFail | S::UnrescueFail => rig.machine.knobs(|knobs| knobs.bmc_gone = true),
            _ => {}
        }
        ask(&rig).await;
        if state == S::UnrescueFail {
            rig.reaches(S::RescueFail).await;
            rig.ask(Verb::Unrescue).await;
        }
        rig.reaches(state).await;
        rig.machine.knobs(|knobs| knobs.bmc_gone = false);
        rig.ask(Verb::Deleted).await;
        let node = rig.reaches(S::Available).await;
        has_no_password(&node);
        assert!(node.instance_info.is_empty(), "from {state}");
        assert!(!rig.machine.is_on(), "from {state}");
        assert!(!node.driver_internal_info.contains_key("wrought_boot"));
    }
}

#[tokio::test]
async fn the_private_copy_of_an_instance_has_no_password() {
    let rig = deployed().await;
    rig.machine.knobs(|knobs| knobs.dead = true);
    ask(&rig).await;
    rig.reaches(S::RescueWait).await;
    rig.machine.knobs(|knobs| knobs.bmc_gone = true);
    rig.ask(Verb::Deleted).await;
    let node = rig.reaches(S::Error).await;
    assert!(node.driver_internal_info.contains_key("wrought_instance"));
    has_no_password(&node);
}

#[tokio::test]
async fn an_agent_that_restarts_is_replaced() {
    let rig = deployed().await;
    rig.machine.knobs(|knobs| knobs.dead = true);
    ask(&rig).await;
    // It called, and is gone before it has its password.
    let mut node = rig.reaches(S::RescueWait).await;
    let info = &mut node.driver_internal_info;
    info.insert("agent_url".to_owned(), json!("https://127.0.0.1:9"));
    info.insert("agent_secret_token".to_owned(), json!("t".repeat(43)));
    let (pem, _) = super::agent::identity();
    info.insert("agent_verify_ca".to_owned(), Value::String(pem));
    let lease = rig
        .store
        .lock_node(rig.node, "test", Duration::from_secs(5))
        .await
        .unwrap();
    rig.store
        .save_node_with(&lease, &mut node, &[], &[])
        .await
        .unwrap();
    rig.store.unlock(lease).await.unwrap();
    rig.machine.knobs(|knobs| knobs.dead = false);
    rig.service.watch(rig.node);
    let node = rig.reaches(S::Rescue).await;
    has_no_password(&node);
    assert_eq!(node.last_error, None);
}

/// Killed at many moments of a rescue and of the way back: both always end.
#[tokio::test]
async fn killed_at_any_moment() {
    let mut rig = deployed().await;
    let mut moment = 5;
    loop {
        ask(&rig).await;
        tokio::time::sleep(Duration::from_millis(moment)).await;
        let done = rig.node().await.provision_state == S::Rescue;
        rig.machine.crash_conductor().await;
        rig.restart().await;
        let node = rig.reaches(S::Rescue).await;
        assert_eq!(node.last_error, None, "after {moment} ms");
        has_no_password(&node);
        rig.ask(Verb::Unrescue).await;
        tokio::time::sleep(Duration::from_millis(moment / 4)).await;
        rig.machine.crash_conductor().await;
        rig.restart().await;
        let node = rig.reaches(S::Active).await;
        assert_eq!(node.last_error, None, "after {moment} ms");
        assert_eq!(rig.machine.logged().last().unwrap(), "boots disk");
        if done {
            return;
        }
        moment += moment / 2 + 10;
    }
}

#[tokio::test]
async fn killed_when_the_ramdisk_has_its_password() {
    let mut rig = deployed().await;
    rig.machine.knobs(|knobs| knobs.crash_on_step = Some(()));
    ask(&rig).await;
    rig.until("password", async || {
        rig.machine.count("run rescue.finalize_rescue") == 1
    })
    .await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    rig.restart().await;
    // Nobody answers any more, so that the ramdisk is booted once more.
    let node = rig.reaches(S::Rescue).await;
    has_no_password(&node);
    assert_eq!(rig.machine.count("run rescue.finalize_rescue"), 2);
}
