//! How lists are made: validation before and after the ramdisk is up,
//! priorities of the settings, verify steps.

use serde_json::Value;
use serde_json::json;
use wrought_rpc::Conductor;
use wrought_rpc::Kind;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;
use super::rig::request;
use crate::config::Config;
use crate::config::Priorities;

fn priorities(given: Value) -> Priorities {
    serde_json::from_value(given).unwrap()
}

async fn manageable(driver: &str, settings: impl FnOnce(&mut Config)) -> Rig {
    let rig = Rig::with(driver, settings, |_| {}).await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig
}

#[tokio::test]
async fn what_can_be_told_without_the_ramdisk_is_told_before_it_is_booted() {
    let rig = manageable("redfish", |_| {}).await;
    rig.clean(json!([
        {"interface": "deploy", "step": "erase_devices"},
        {"interface": "deploy", "step": "wait", "args": {"minutes": 1}},
    ]))
    .await;
    let node = rig.reaches(S::CleanFail).await;
    assert_eq!(
        node.last_error.unwrap(),
        "clean step deploy.wait: unknown argument \"minutes\", the step takes only \"seconds\""
    );
    assert!(!node.maintenance, "no step was running");
    assert_eq!(rig.machine.count("power on"), 0);
}

#[tokio::test]
async fn the_agents_steps_are_checked_when_it_has_told_of_them() {
    let rig = manageable("redfish", |_| {}).await;
    for (step, says) in [
        (
            json!({"interface": "deploy", "step": "burn_in"}),
            "clean step deploy.burn_in: required argument \"time\" is missing (Seconds)",
        ),
        (
            json!({"interface": "deploy", "step": "burn_in", "args": {"time": "long"}}),
            "clean step deploy.burn_in: argument \"time\": expected integer, found string",
        ),
        (
            json!({"interface": "deploy", "step": "erase_devices", "args": {"how": "well"}}),
            "clean step deploy.erase_devices: unknown argument \"how\", the step takes none",
        ),
    ] {
        rig.clean(json!([step])).await;
        let node = rig.reaches(S::CleanFail).await;
        assert_eq!(node.last_error.as_deref(), Some(says));
        assert!(!node.maintenance, "no step was running");
        rig.ask(Verb::Manage).await;
        rig.reaches(S::Manageable).await;
    }
    rig.clean(json!([{"interface": "deploy", "step": "burn_in", "args": {"time": 5}}]))
        .await;
    rig.reaches(S::Manageable).await;
    let body = rig.machine.body("clean.execute_clean_step");
    assert_eq!(body["params"]["step"]["args"], json!({"time": 5}));
}

#[tokio::test]
async fn a_deploy_with_wrong_steps_is_refused_or_fails_by_name() {
    let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
    rig.make_available().await;
    for (step, says) in [
        (
            json!({"interface": "deploy", "step": "deploy", "priority": 50, "args": {}}),
            "deploy.deploy cannot be changed",
        ),
        (
            json!({"interface": "deploy", "step": "polish", "priority": 50, "args": {}}),
            "deploy step deploy.polish is not known",
        ),
        (
            json!({"interface": "deploy", "step": "hold", "priority": 50, "args": {"a": 1}}),
            "deploy step deploy.hold: unknown argument \"a\"",
        ),
    ] {
        let mut deploy = request(Verb::Active);
        deploy.deploy_steps = Some(vec![step]);
        let refused = rig.service.provision(rig.node, deploy).await.unwrap_err();
        assert_eq!(refused.kind, Kind::InvalidParameter);
        assert!(refused.message.contains(says), "{refused}");
    }
    // Only the agent can tell.
    let rig = Rig::new().await;
    rig.make_available().await;
    rig.set_image().await;
    let mut deploy = request(Verb::Active);
    deploy.deploy_steps = Some(vec![
        json!({"interface": "deploy", "step": "polish", "priority": 50, "args": {}}),
    ]);
    rig.service.provision(rig.node, deploy).await.unwrap();
    let node = rig.reaches(S::DeployFail).await;
    let error = node.last_error.unwrap();
    assert!(
        error.starts_with("deploy step deploy.polish is not known"),
        "{error}"
    );
    assert_eq!(rig.machine.count("run deploy.write_image"), 0);
}

#[tokio::test]
async fn a_step_of_the_agent_behind_its_end_is_refused() {
    let rig = Rig::new().await;
    rig.make_available().await;
    rig.set_image().await;
    let mut deploy = request(Verb::Active);
    deploy.deploy_steps = Some(vec![
        json!({"interface": "deploy", "step": "inject_files", "priority": 25, "args": {}}),
    ]);
    rig.service.provision(rig.node, deploy).await.unwrap();
    let node = rig.reaches(S::DeployFail).await;
    assert_eq!(
        node.last_error.unwrap(),
        "deploy step deploy.inject_files needs the agent, which deploy.tear_down_agent has ended \
         before: give it a priority above 40"
    );
    assert_eq!(rig.machine.count("run deploy.write_image"), 0);
}

#[tokio::test]
async fn priorities_of_the_settings_order_and_switch_off() {
    let rig = manageable("redfish", |config| {
        let config = &mut config.conductor;
        config.clean_step_priority_override = priorities(json!(
            "deploy.erase_devices:100,deploy.erase_devices_metadata:0"
        ));
        config.deploy_step_priority_override =
            priorities(json!({"deploy.switch_to_tenant_network": 0, "deploy.boot_instance": 5}));
    })
    .await;
    rig.ask(Verb::Provide).await;
    rig.reaches(S::Available).await;
    assert_eq!(rig.machine.count("run deploy.erase_devices"), 1);
    assert_eq!(rig.machine.count("run deploy.erase_devices_metadata"), 0);
    rig.deploy().await;
    let told = rig.told().await;
    let start = "Starting deploying with steps=[deploy.deploy, deploy.write_image, \
                 deploy.prepare_instance_boot, deploy.tear_down_agent, deploy.boot_instance]";
    assert!(told.contains(&start.to_owned()), "{told:#?}");
}

#[tokio::test]
async fn a_verify_step_that_fails_keeps_the_node_in_enroll() {
    let broken = |node: &mut wrought_store::Node| {
        let error = json!("the fans stand still");
        node.driver_info
            .insert("fake_verify_error".to_owned(), error);
    };
    let rig = Rig::with("fake-hardware", |_| {}, broken).await;
    rig.ask(Verb::Manage).await;
    rig.until("error", async || rig.node().await.last_error.is_some())
        .await;
    let node = rig.reaches(S::Enroll).await;
    assert_eq!(
        node.last_error.unwrap(),
        format!(
            "Node {} failed verify step management.fake_verify: the fans stand still",
            rig.node
        )
    );
    let off = |config: &mut Config| {
        config.conductor.verify_step_priority_override =
            priorities(json!({"management.fake_verify": "0"}));
    };
    let rig = Rig::with("fake-hardware", off, broken).await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
}
