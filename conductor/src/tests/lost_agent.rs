//! Agents that go away in the middle of things.

use std::time::Duration;

use serde_json::json;
use wrought_rpc::Conductor;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;
use super::rig::request;

#[tokio::test]
async fn restarted_agent_repeats_a_repeatable_step() {
    let rig = Rig::new().await;
    rig.make_available().await;
    rig.machine
        .knobs(|knobs| knobs.step_time = Duration::from_millis(1200));
    rig.set_image().await;
    rig.ask(Verb::Active).await;
    rig.until("write", async || {
        rig.machine.count("run deploy.write_image") == 1
    })
    .await;
    rig.until("wait", async || {
        rig.node().await.provision_state == S::DeployWait
    })
    .await;
    rig.machine.agent_restarts();
    rig.machine
        .knobs(|knobs| knobs.step_time = Duration::from_millis(50));
    rig.reaches(S::Active).await;
    assert!(
        rig.machine.count("lookup gave no token") > 0,
        "the token is handed out once"
    );
    assert_eq!(
        rig.machine.count("boots pxe"),
        3,
        "clean, deploy, and the repetition"
    );
    assert_eq!(rig.machine.count("run deploy.write_image"), 2);
    assert_eq!(
        rig.machine.count("done deploy.write_image"),
        1,
        "not counted as done"
    );
}

#[tokio::test]
async fn lost_token_is_replaced_with_a_fresh_start() {
    let rig = Rig::new().await;
    rig.make_available().await;
    rig.set_image().await;
    rig.machine.knobs(|knobs| knobs.lose_token = true);
    rig.ask(Verb::Active).await;
    let node = rig.reaches(S::Active).await;
    assert_eq!(node.last_error, None);
    assert!(rig.machine.count("lookup gave no token") > 0);
    // The patience of tests is short: a slow agent may be started once more.
    let boots = rig.machine.count("boots pxe");
    assert!(boots >= 3, "clean, deploy, a fresh start: {boots}");
    assert_eq!(rig.machine.count("run deploy.write_image"), 1);
}

#[tokio::test]
async fn agent_that_never_stays_fails_the_deploy() {
    let rig = Rig::with(
        "redfish",
        |config| config.conductor.step_recoveries = 1,
        |_| {},
    )
    .await;
    rig.make_available().await;
    rig.machine
        .knobs(|knobs| knobs.step_time = Duration::from_secs(60));
    rig.set_image().await;
    rig.ask(Verb::Active).await;
    for time in 1..=2 {
        rig.until("write", async || {
            rig.machine.count("run deploy.write_image") == time
        })
        .await;
        rig.until("wait", async || {
            rig.node().await.provision_state == S::DeployWait
        })
        .await;
        rig.machine.agent_restarts();
    }
    let node = rig.reaches(S::DeployFail).await;
    let error = node.last_error.unwrap();
    assert!(
        error.contains("deploy.write_image") && error.contains("lost 2 times"),
        "{error}"
    );
}

#[tokio::test]
async fn step_that_must_not_run_twice_fails_and_says_what_is_not_known() {
    let rig = Rig::with(
        "redfish",
        |config| config.conductor.clean_callback_timeout = 2,
        |_| {},
    )
    .await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.machine
        .knobs(|knobs| knobs.step_time = Duration::from_secs(60));
    let mut clean = request(Verb::Clean);
    clean.clean_steps = Some(vec![
        json!({"interface": "raid", "step": "create_configuration"}),
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
    // A stranger at the same place would be noticed; here nothing answers.
    rig.machine.agent_restarts();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let kind = crate::steps::Kind::Clean;
    let task = crate::task::Task::take(&rig.service, rig.node, Duration::from_secs(3))
        .await
        .unwrap();
    crate::flows::run(task, crate::flows::Work::Look { kind, gone: true }).await;
    let node = rig.reaches(S::CleanFail).await;
    let error = node.last_error.unwrap();
    assert!(
        error.contains("raid.create_configuration") && error.contains("not known"),
        "{error}"
    );
    assert!(node.maintenance);
    assert_eq!(rig.machine.count("run raid.create_configuration"), 1);
}

#[tokio::test]
async fn silence_ends_in_a_time_out() {
    let rig = Rig::with(
        "redfish",
        |config| {
            config.conductor.check_interval = 1;
            config.conductor.deploy_callback_timeout = 1;
            config.conductor.clean_callback_timeout = 1;
        },
        |node| node.automated_clean = Some(false),
    )
    .await;
    rig.machine.knobs(|knobs| knobs.dead = true);
    rig.make_available().await;
    rig.set_image().await;
    rig.ask(Verb::Active).await;
    let node = rig.reaches(S::DeployFail).await;
    assert_eq!(
        node.last_error.unwrap(),
        format!(
            "Timeout reached while waiting for callback for node {}",
            rig.node
        )
    );
    rig.until("power off", async || !rig.machine.is_on()).await;
    // From a failed deploy straight back to manageable, as Wrought allows.
    rig.reaches(S::DeployFail).await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    let mut clean = request(Verb::Clean);
    clean.clean_steps = Some(vec![
        json!({"interface": "deploy", "step": "erase_devices"}),
    ]);
    rig.service.provision(rig.node, clean).await.unwrap();
    let node = rig.reaches(S::CleanFail).await;
    assert!(
        node.last_error
            .unwrap()
            .starts_with("Timeout reached while cleaning the node.")
    );
    assert!(!node.maintenance, "no step was running");
    assert_eq!(node.target_provision_state, Some(S::Manageable));
}
