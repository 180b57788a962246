//! Tear-down that fails, is tried again, or is taken back; rebuilding.

use serde_json::json;
use uuid::Uuid;
use wrought_rpc::Conductor;
use wrought_rpc::Hardware;
use wrought_rpc::Vif;
use wrought_store::HistoryQuery;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;

async fn deployed() -> Rig {
    let rig = Rig::new().await;
    rig.make_available().await;
    rig.deploy().await;
    rig
}

async fn set(rig: &Rig, key: &str, value: serde_json::Value) {
    let mut node = rig.node().await;
    node.instance_info.insert(key.to_owned(), value);
    let fields = vec!["instance_info".to_owned()];
    rig.service.update_node(node, fields, false).await.unwrap();
}

#[tokio::test]
async fn is_tried_again_from_error_and_keeps_its_private_copy_until_cleaned() {
    let rig = deployed().await;
    let mut node = rig.node().await;
    let instance = Uuid::new_v4();
    node.instance_uuid = Some(instance);
    let fields = vec!["instance_uuid".to_owned()];
    rig.service.update_node(node, fields, false).await.unwrap();
    rig.machine.knobs(|knobs| knobs.bmc_gone = true);
    for time in 1..=2 {
        rig.ask(Verb::Deleted).await;
        let node = rig.reaches(S::Error).await;
        let error = node.last_error.clone().unwrap();
        assert!(error.starts_with("Failed to tear down: "), "{error}");
        assert!(node.instance_info.is_empty() && node.instance_uuid.is_none());
        let copy = Rig::internal(&node, "wrought_instance");
        assert_eq!(copy["instance_uuid"], json!(instance), "time {time}");
        assert_eq!(copy["instance_info"]["image_checksum"], "0123");
    }
    rig.machine.knobs(|knobs| {
        knobs.bmc_gone = false;
        let step = "deploy.erase_devices".to_owned();
        knobs.failing.insert(step, "sda: EIO".to_owned())
    });
    rig.ask(Verb::Deleted).await;
    let node = rig.reaches(S::CleanFail).await;
    let copy = Rig::internal(&node, "wrought_instance");
    assert_eq!(copy["instance_uuid"], json!(instance), "not cleaned yet");
    rig.machine.knobs(|knobs| knobs.failing.clear());
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.ask(Verb::Provide).await;
    let node = rig.reaches(S::Available).await;
    assert!(!node.driver_internal_info.contains_key("wrought_instance"));
}

#[tokio::test]
async fn a_rebuild_after_it_failed_has_the_instance_again() {
    let rig = deployed().await;
    rig.machine.knobs(|knobs| knobs.bmc_gone = true);
    rig.ask(Verb::Deleted).await;
    rig.reaches(S::Error).await;
    rig.machine.knobs(|knobs| knobs.bmc_gone = false);
    rig.ask(Verb::Rebuild).await;
    let node = rig.reaches(S::Active).await;
    assert_eq!(node.instance_info["image_checksum"], "0123");
    assert!(!node.driver_internal_info.contains_key("wrought_instance"));
}

#[tokio::test]
async fn takes_the_vifs_away() {
    let rig = Rig::with(
        "fake-hardware",
        |_| {},
        |node| {
            node.provision_state = S::Active;
            node.interfaces
                .insert("network".to_owned(), "flat".to_owned());
        },
    )
    .await;
    let vif = Vif {
        id: "a".to_owned(),
        port: None,
        portgroup: None,
    };
    rig.service.attach_vif(rig.node, vif).await.unwrap();
    assert_eq!(rig.service.vifs(rig.node).await.unwrap(), ["a"]);
    rig.ask(Verb::Deleted).await;
    rig.reaches(S::Available).await;
    assert!(rig.service.vifs(rig.node).await.unwrap().is_empty());
}

#[tokio::test]
async fn rebuild_accepts_preserve_ephemeral_and_says_what_it_is_worth() {
    let rig = deployed().await;
    set(&rig, "preserve_ephemeral", json!("maybe")).await;
    let refused = rig
        .service
        .provision(rig.node, super::rig::request(Verb::Rebuild));
    let refused = refused.await.unwrap_err();
    assert!(refused.message.contains("preserve_ephemeral"), "{refused}");
    set(&rig, "preserve_ephemeral", json!("true")).await;
    rig.ask(Verb::Rebuild).await;
    let node = rig.reaches(S::Active).await;
    assert_eq!(node.instance_info["image_type"], "whole-disk");
    let history = rig
        .store
        .history(rig.node, &HistoryQuery::default())
        .await
        .unwrap();
    let told = |start: &str| history.iter().any(|entry| entry.event.starts_with(start));
    assert!(told("preserve_ephemeral is set"));
}
