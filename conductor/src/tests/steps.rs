//! Reserved steps, time limits, and what an agent may do to a list.

use std::time::Duration;
use std::time::Instant;

use serde_json::json;
use wrought_rpc::Conductor;
use wrought_wire::state::PowerState;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;
use super::rig::request;
use crate::config::Config;

async fn manageable(settings: impl FnOnce(&mut Config)) -> Rig {
    let rig = Rig::with("redfish", settings, |_| {}).await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig
}

#[tokio::test]
async fn power_steps_go_on_with_the_next_step_in_a_fresh_ramdisk() {
    let rig = manageable(|_| {}).await;
    rig.clean(json!([
        {"interface": "deploy", "step": "erase_devices_metadata"},
        {"interface": "power", "step": "power_off"},
        {"interface": "vendor", "step": "power_on"},
        {"interface": "deploy", "step": "erase_devices"},
        {"interface": "deploy", "step": "reboot"},
        {"interface": "raid", "step": "create_configuration"},
    ]))
    .await;
    let node = rig.reaches(S::Manageable).await;
    assert_eq!(node.last_error, None);
    let told = ["power", "boots", "done"];
    let seen: Vec<String> = rig
        .machine
        .logged()
        .into_iter()
        .filter(|line| told.iter().any(|word| line.starts_with(word)))
        .collect();
    assert_eq!(
        seen,
        [
            "power on",
            "boots pxe",
            "done deploy.erase_devices_metadata",
            "power off",
            "power on",
            "boots pxe",
            "done deploy.erase_devices",
            "power off",
            "power on",
            "boots pxe",
            "done raid.create_configuration",
            "power off",
        ]
    );
    let told = rig.told().await;
    assert!(
        told.contains(&"Step power.power_off (2 of 6) completed".to_owned()),
        "{told:#?}"
    );
    assert!(
        !told.iter().any(|event| event.contains("was lost")),
        "{told:#?}"
    );
}

#[tokio::test]
async fn a_power_step_in_a_deploy_runs_where_its_priority_puts_it() {
    let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
    rig.make_available().await;
    let mut deploy = request(Verb::Active);
    deploy.deploy_steps = Some(vec![
        json!({"interface": "deploy", "step": "power_on", "priority": 150, "args": {}}),
    ]);
    rig.service.provision(rig.node, deploy).await.unwrap();
    let node = rig.reaches(S::Active).await;
    assert_eq!(node.power_state, Some(PowerState::On));
    let told = rig.told().await;
    let start = "Starting deploying with steps=[deploy.power_on, deploy.deploy]";
    assert!(told.contains(&start.to_owned()), "{told:#?}");
}

#[tokio::test]
async fn hold_stops_and_unhold_goes_on_with_the_next_step() {
    let rig = manageable(|_| {}).await;
    let steps = json!([
        {"interface": "deploy", "step": "erase_devices_metadata"},
        {"interface": "deploy", "step": "hold"},
        {"interface": "deploy", "step": "erase_devices"},
    ]);
    rig.clean(steps.clone()).await;
    let node = rig.reaches(S::CleanHold).await;
    assert_eq!(node.clean_step["step"], "hold");
    assert_eq!(node.target_provision_state, Some(S::Manageable));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(rig.machine.count("run deploy.erase_devices"), 0);
    rig.ask(Verb::Unhold).await;
    rig.reaches(S::Manageable).await;
    assert_eq!(rig.machine.count("done deploy.erase_devices_metadata"), 1);
    assert_eq!(rig.machine.count("done deploy.erase_devices"), 1);
    // What is held can be stopped at once.
    rig.clean(steps).await;
    rig.reaches(S::CleanHold).await;
    rig.ask(Verb::Abort).await;
    let node = rig.reaches(S::CleanFail).await;
    assert!(
        node.last_error
            .unwrap()
            .starts_with("By request, the clean operation")
    );
    assert!(!node.maintenance);
}

#[tokio::test]
async fn hold_survives_a_crash() {
    let mut rig = manageable(|_| {}).await;
    rig.clean(json!([
        {"interface": "deploy", "step": "hold"},
        {"interface": "deploy", "step": "erase_devices"},
    ]))
    .await;
    rig.reaches(S::CleanHold).await;
    rig.machine.crash_conductor().await;
    rig.restart().await;
    rig.reaches(S::CleanHold).await;
    rig.ask(Verb::Unhold).await;
    rig.reaches(S::Manageable).await;
    assert_eq!(rig.machine.count("done deploy.erase_devices"), 1);
}

#[tokio::test]
async fn wait_with_seconds_really_goes_on() {
    let mut rig = manageable(|config| {
        config.conductor.max_conductor_wait_step_seconds = 2;
        // Shorter than the wait: waiting on purpose is no silence.
        config.conductor.check_interval = 1;
        config.conductor.clean_callback_timeout = 1;
    })
    .await;
    rig.machine.knobs(|knobs| knobs.beats = Some(1));
    let began = Instant::now();
    rig.clean(json!([
        {"interface": "deploy", "step": "wait", "args": {"seconds": 100_000}},
        {"interface": "deploy", "step": "erase_devices"},
    ]))
    .await;
    rig.until("waiting", async || {
        let node = rig.node().await;
        let step = node.clean_step.get("step");
        node.provision_state == S::CleanWait && step.is_some_and(|step| step == "wait")
    })
    .await;
    rig.machine.crash_conductor().await;
    rig.restart().await;
    rig.reaches(S::Manageable).await;
    assert!(began.elapsed() >= Duration::from_secs(2));
    assert_eq!(rig.machine.count("done deploy.erase_devices"), 1);
    let told = rig.told().await;
    assert!(
        told.iter()
            .any(|event| event.contains("is shortened to 2 s")),
        "{told:#?}"
    );
}

#[tokio::test]
async fn wait_without_seconds_goes_on_with_the_next_heartbeat() {
    let rig = manageable(|_| {}).await;
    rig.machine.knobs(|knobs| knobs.beats = Some(1));
    rig.clean(json!([
        {"interface": "deploy", "step": "wait"},
        {"interface": "deploy", "step": "erase_devices"},
    ]))
    .await;
    rig.until("waiting", async || {
        Rig::internal(&rig.node().await, "wrought_wait")["for"] == "heartbeat"
    })
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(rig.machine.count("run deploy.erase_devices"), 0);
    rig.machine.knobs(|knobs| knobs.beats = None);
    rig.reaches(S::Manageable).await;
    assert_eq!(rig.machine.count("done deploy.erase_devices"), 1);
}

#[tokio::test]
async fn a_step_that_takes_too_long_fails_by_name() {
    let limit = |config: &mut Config| {
        let limits = &mut config.conductor.step_timeouts;
        limits.insert("deploy.erase_devices".to_owned(), 1);
    };
    let rig = manageable(limit).await;
    rig.machine
        .knobs(|knobs| knobs.step_time = Duration::from_secs(60));
    rig.clean(json!([{"interface": "deploy", "step": "erase_devices"}]))
        .await;
    let node = rig.reaches(S::CleanFail).await;
    assert_eq!(
        node.last_error.unwrap(),
        format!(
            "clean step deploy.erase_devices on node {} did not end within 1 s (setting \
             step_timeouts)",
            rig.node
        )
    );
    assert!(node.maintenance);
}

#[tokio::test]
async fn a_step_may_ask_for_a_reboot_and_the_next_one_meets_a_fresh_ramdisk() {
    let rig = manageable(|_| {}).await;
    rig.machine
        .knobs(|knobs| knobs.bmc_delay = Duration::from_millis(50));
    rig.clean(json!([
        {"interface": "firmware", "step": "update"},
        {"interface": "deploy", "step": "erase_devices"},
    ]))
    .await;
    rig.until("reboot", async || {
        let node = rig.node().await;
        Rig::internal(&node, "cleaning_reboot") == true
    })
    .await;
    let node = rig.reaches(S::Manageable).await;
    assert!(!node.driver_internal_info.contains_key("cleaning_reboot"));
    assert_eq!(rig.machine.count("done firmware.update"), 1);
    assert_eq!(rig.machine.count("boots pxe"), 2);
    assert_eq!(rig.machine.count("done deploy.erase_devices"), 1);
}

#[tokio::test]
async fn automated_cleaning_starts_anew_with_other_hardware_managers() {
    let rig = manageable(|_| {}).await;
    rig.machine
        .knobs(|knobs| knobs.step_time = Duration::from_millis(600));
    rig.ask(Verb::Provide).await;
    rig.until("first step", async || {
        rig.machine.count("run deploy.erase_devices_metadata") == 1
    })
    .await;
    rig.machine
        .knobs(|knobs| knobs.hardware = Some("2.0".to_owned()));
    rig.reaches(S::Available).await;
    assert_eq!(rig.machine.count("version mismatch"), 1);
    assert_eq!(rig.machine.count("run clean.get_clean_steps"), 2);
    assert_eq!(rig.machine.count("done deploy.erase_devices_metadata"), 2);
    assert_eq!(rig.machine.count("done deploy.erase_devices"), 1);
}

#[tokio::test]
async fn manual_cleaning_repeats_the_step_with_other_hardware_managers() {
    let rig = manageable(|_| {}).await;
    rig.machine
        .knobs(|knobs| knobs.step_time = Duration::from_millis(600));
    rig.clean(json!([
        {"interface": "deploy", "step": "erase_devices_metadata"},
        {"interface": "deploy", "step": "erase_devices"},
    ]))
    .await;
    rig.until("first step", async || {
        rig.machine.count("run deploy.erase_devices_metadata") == 1
    })
    .await;
    rig.machine
        .knobs(|knobs| knobs.hardware = Some("2.0".to_owned()));
    rig.reaches(S::Manageable).await;
    assert_eq!(rig.machine.count("version mismatch"), 1);
    assert_eq!(rig.machine.count("done deploy.erase_devices_metadata"), 1);
    assert_eq!(rig.machine.count("done deploy.erase_devices"), 1);
}

#[tokio::test]
async fn hardware_managers_that_never_stay_the_same_fail_the_list() {
    let rig = manageable(|_| {}).await;
    rig.machine
        .knobs(|knobs| knobs.hardware = Some("flapping".to_owned()));
    rig.ask(Verb::Provide).await;
    let node = rig.reaches(S::CleanFail).await;
    let error = node.last_error.unwrap();
    assert!(
        error.contains("deploy.erase_devices_metadata") && error.contains("4 times"),
        "{error}"
    );
    assert_eq!(rig.machine.count("version mismatch"), 4);
}

#[tokio::test]
async fn a_service_knows_the_reserved_steps_too() {
    let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
    rig.make_available().await;
    rig.ask(Verb::Active).await;
    rig.reaches(S::Active).await;
    let mut service = request(Verb::Service);
    service.service_steps = Some(vec![
        json!({"interface": "power", "step": "power_off"}),
        json!({"interface": "vendor", "step": "hold"}),
        json!({"interface": "vendor", "step": "wait", "args": {"seconds": 0.1}}),
        json!({"interface": "vendor", "step": "log_passthrough"}),
        json!({"interface": "power", "step": "power_on"}),
    ]);
    rig.service.provision(rig.node, service).await.unwrap();
    let node = rig.reaches(S::ServiceHold).await;
    assert_eq!(node.power_state, Some(PowerState::Off));
    assert_eq!(node.service_step["step"], "hold");
    rig.ask(Verb::Unhold).await;
    let node = rig.reaches(S::Active).await;
    assert_eq!(node.power_state, Some(PowerState::On));
    assert_eq!(node.last_error, None);
}

#[tokio::test]
async fn steps_are_left_out_of_the_history_where_that_is_set() {
    let quiet = |config: &mut Config| config.conductor.record_step_flows_in_history = false;
    let rig = Rig::with("fake-hardware", quiet, |_| {}).await;
    rig.make_available().await;
    let told = rig.told().await;
    assert!(
        !told.iter().any(|event| event.starts_with("Step ")),
        "{told:#?}"
    );
}
