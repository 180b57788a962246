//! Adopting.

use std::time::Duration;

use serde_json::json;
use wrought_rpc::Conductor;
use wrought_wire::state::PowerState;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;

#[tokio::test]
async fn a_running_machine_is_left_alone() {
    let rig = Rig::new().await;
    rig.machine.knobs(|knobs| knobs.dead = true);
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    let before = rig.machine.logged().len();
    rig.ask(Verb::Adopt).await;
    let node = rig.reaches(S::Active).await;
    assert_eq!((node.target_provision_state, node.last_error), (None, None));
    assert_eq!(node.power_state, Some(PowerState::Off), "as it was found");
    assert_eq!(rig.machine.logged().len(), before, "nothing was done");
}

#[tokio::test]
async fn of_fake_hardware_then_torn_down() {
    let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.ask(Verb::Adopt).await;
    rig.reaches(S::Active).await;
    rig.ask(Verb::Deleted).await;
    rig.reaches(S::Available).await;
}

#[tokio::test]
async fn a_failure_forgets_the_power_state_and_can_be_tried_again() {
    let rig = Rig::new().await;
    rig.ask(Verb::Manage).await;
    let node = rig.reaches(S::Manageable).await;
    assert!(node.power_state.is_some());
    rig.machine.knobs(|knobs| knobs.bmc_gone = true);
    rig.ask(Verb::Adopt).await;
    let node = rig.reaches(S::AdoptFail).await;
    let error = node.last_error.clone().unwrap();
    let start = format!("Error while attempting to adopt node {}: ", rig.node);
    assert!(error.starts_with(&start), "{error}");
    assert_eq!((node.power_state, node.maintenance), (None, false));
    assert_eq!(node.target_provision_state, Some(S::Active));
    rig.machine.knobs(|knobs| knobs.bmc_gone = false);
    rig.ask(Verb::Adopt).await;
    rig.reaches(S::Active).await;
    // The other way out.
    let rig = Rig::new().await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.machine.knobs(|knobs| knobs.bmc_gone = true);
    rig.ask(Verb::Adopt).await;
    rig.reaches(S::AdoptFail).await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.ask(Verb::Adopt).await;
    rig.reaches(S::AdoptFail).await;
    rig.service.destroy_node(rig.node).await.unwrap();
}

#[tokio::test]
async fn killed_in_the_middle() {
    let mut rig = Rig::new().await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.machine
        .knobs(|knobs| knobs.bmc_delay = Duration::from_millis(300));
    rig.ask(Verb::Adopt).await;
    assert_eq!(rig.node().await.provision_state, S::Adopting);
    rig.machine.crash_conductor().await;
    rig.restart().await;
    let node = rig.reaches(S::Active).await;
    assert_eq!(node.last_error, None);
}

#[tokio::test]
async fn an_instance_that_was_torn_down_by_mistake_comes_back() {
    let rig = Rig::new().await;
    rig.make_available().await;
    rig.deploy().await;
    rig.machine.knobs(|knobs| {
        let story = "no such disk".to_owned();
        let step = "deploy.erase_devices_metadata".to_owned();
        knobs.failing.insert(step, story)
    });
    rig.ask(Verb::Deleted).await;
    let node = rig.reaches(S::CleanFail).await;
    assert!(node.instance_info.is_empty());
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.ask(Verb::Adopt).await;
    let node = rig.reaches(S::Active).await;
    assert_eq!(
        node.instance_info["image_source"],
        json!("http://images.test/debian.qcow2")
    );
    assert!(!node.driver_internal_info.contains_key("wrought_instance"));
}
