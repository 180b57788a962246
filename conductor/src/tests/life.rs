//! A node's whole life.

use serde_json::json;
use wrought_rpc::Conductor;
use wrought_store::HistoryQuery;
use wrought_wire::state::PowerState;
use wrought_wire::state::PowerTarget;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;
use super::rig::request;

#[tokio::test]
async fn redfish_by_network_from_enroll_to_deletion() {
    let rig = Rig::new().await;
    rig.make_available().await;
    let cleaned = rig.machine.logged();
    let order: Vec<&str> = cleaned.iter().map(String::as_str).collect();
    assert_eq!(
        order,
        [
            "boot device pxe once",
            "power on",
            "boots pxe",
            "run clean.get_clean_steps",
            "run deploy.erase_devices_metadata",
            "done deploy.erase_devices_metadata",
            "run deploy.erase_devices",
            "done deploy.erase_devices",
            "power off",
        ]
    );
    let node = rig.node().await;
    assert_eq!(node.boot_mode.as_deref(), Some("uefi"));
    for key in [
        "clean_steps",
        "clean_step_index",
        "agent_secret_token",
        "agent_url",
        "wrought_boot",
    ] {
        assert!(
            !node.driver_internal_info.contains_key(key),
            "{key} is left"
        );
    }

    let node = rig.deploy().await;
    let order: Vec<String> = rig.machine.logged().split_off(cleaned.len());
    assert_eq!(
        order,
        [
            "boot device pxe once",
            "power on",
            "boots pxe",
            "run deploy.get_deploy_steps",
            "run deploy.write_image",
            "done deploy.write_image",
            "run standby.get_partition_uuids",
            "run image.install_bootloader",
            "boot device disk always",
            "run standby.power_off",
            "agent powers off",
            "power on",
            "boots disk",
        ]
    );
    assert_eq!(node.power_state, Some(PowerState::On));
    assert_eq!(
        (node.target_provision_state, node.last_error.as_deref()),
        (None, None)
    );
    assert_eq!(Rig::internal(&node, "agent_peak_rss_bytes"), 4711);
    assert_eq!(Rig::internal(&node, "root_uuid_or_disk_id"), "0x1234");
    assert!(node.deploy_step.is_empty());
    let body = rig.machine.body("deploy.execute_deploy_step");
    let args = &body["params"]["step"]["args"];
    assert_eq!(args["image_info"]["id"], "debian.qcow2");
    assert_eq!(args["configdrive"], json!({"meta_data": {"name": "n"}}));
    assert_eq!(
        body["params"]["node"]["instance_info"]["configdrive"],
        "******"
    );
    assert_eq!(body["params"]["deploy_version"], json!({"generic": "1.2"}));
    assert_eq!(body["params"]["ports"][0]["address"], super::rig::MAC);

    rig.ask(Verb::Deleted).await;
    let node = rig.reaches(S::Available).await;
    assert!(node.instance_info.is_empty());
    assert!(!node.driver_internal_info.contains_key("wrought_instance"));
    assert!(!rig.machine.is_on());
    rig.service.destroy_node(rig.node).await.unwrap();
}

#[tokio::test]
async fn redfish_by_virtual_media() {
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
    assert_eq!(rig.machine.disc(), None);
    rig.deploy().await;
    let logged = rig.machine.logged();
    assert_eq!(rig.machine.disc(), None, "the disc is out");
    assert_eq!(rig.machine.count("disc in"), 2);
    assert_eq!(logged.last().unwrap(), "boots disk");
    assert!(
        !logged.iter().any(|line| line.contains("no token")),
        "the token is on the disc"
    );
}

#[tokio::test]
async fn fake_hardware_whole_life() {
    let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
    rig.make_available().await;
    rig.ask(Verb::Active).await;
    rig.reaches(S::Active).await;
    rig.ask(Verb::Rebuild).await;
    rig.reaches(S::Active).await;
    rig.ask(Verb::Undeploy).await;
    rig.reaches(S::Available).await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    let mut clean = request(Verb::Clean);
    clean.clean_steps = Some(vec![
        json!({"interface": "vendor", "step": "log_passthrough"}),
    ]);
    rig.service.provision(rig.node, clean).await.unwrap();
    rig.reaches(S::Manageable).await;
    for (target, state) in [
        (PowerTarget::On, PowerState::On),
        (PowerTarget::SoftOff, PowerState::Off),
    ] {
        rig.service
            .change_power(rig.node, target, None)
            .await
            .unwrap();
        rig.until("power", async || {
            rig.node().await.target_power_state.is_none()
        })
        .await;
        assert_eq!(rig.node().await.power_state, Some(state));
    }
    let history = rig
        .store
        .history(rig.node, &HistoryQuery::default())
        .await
        .unwrap();
    let events: Vec<&str> = history.iter().map(|entry| entry.event.as_str()).collect();
    assert!(
        events.contains(&"Starting deploying with steps=[deploy.deploy]"),
        "{events:#?}"
    );
    assert!(
        events.contains(&"Manual cleaning completed successfully"),
        "{events:#?}"
    );
}

#[tokio::test]
async fn manual_clean_runs_in_the_given_order() {
    let rig = Rig::new().await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    let mut clean = request(Verb::Clean);
    clean.clean_steps = Some(vec![
        json!({"interface": "deploy", "step": "erase_devices"}),
        json!({"interface": "raid", "step": "create_configuration"}),
        json!({"interface": "deploy", "step": "erase_devices_metadata"}),
    ]);
    rig.service.provision(rig.node, clean).await.unwrap();
    rig.reaches(S::Manageable).await;
    let done: Vec<String> = rig
        .machine
        .logged()
        .into_iter()
        .filter(|line| line.starts_with("done"))
        .collect();
    assert_eq!(
        done,
        [
            "done deploy.erase_devices",
            "done raid.create_configuration",
            "done deploy.erase_devices_metadata"
        ]
    );
}

#[tokio::test]
async fn progress_is_seen_while_a_step_runs() {
    let rig = Rig::new().await;
    rig.make_available().await;
    rig.machine
        .knobs(|knobs| knobs.step_time = std::time::Duration::from_millis(1500));
    rig.set_image().await;
    rig.ask(Verb::Active).await;
    rig.until("progress", async || {
        let node = rig.node().await;
        node.provision_state == S::DeployWait
            && Rig::internal(&node, "wrought_progress")["percent"] == 50
            && node.deploy_step["step"] == "write_image"
            && Rig::internal(&node, "deploy_step_index") == 1
    })
    .await;
    let node = rig.reaches(S::Active).await;
    assert!(!node.driver_internal_info.contains_key("wrought_progress"));
}

#[tokio::test]
async fn failed_deploy_rests_off_and_can_be_tried_again() {
    let rig = Rig::new().await;
    rig.make_available().await;
    let story = "sha256 of http://images.test/debian.qcow2: expected 0123, found 4567".to_owned();
    rig.machine.knobs(|knobs| {
        knobs
            .failing
            .insert("deploy.write_image".to_owned(), story.clone())
    });
    rig.set_image().await;
    rig.ask(Verb::Active).await;
    let node = rig.reaches(S::DeployFail).await;
    let error = node.last_error.clone().unwrap();
    assert!(error.starts_with("Agent returned error for deploy step deploy.write_image on node"));
    assert!(
        error.ends_with(&story),
        "no logs where the agent has none: {error}"
    );
    assert!(!node.maintenance);
    rig.until("power off", async || !rig.machine.is_on()).await;
    let node = rig.reaches(S::DeployFail).await;
    assert!(
        !node.driver_internal_info.contains_key("wrought_boot"),
        "artefacts withdrawn"
    );
    assert_eq!(node.instance_info["image_checksum"], "0123");
    rig.machine.knobs(|knobs| knobs.failing.clear());
    rig.ask(Verb::Active).await;
    let node = rig.reaches(S::Active).await;
    assert_eq!(node.last_error, None);
}

#[tokio::test]
async fn failed_clean_step_sets_maintenance() {
    let rig = Rig::new().await;
    rig.machine.knobs(|knobs| {
        knobs
            .failing
            .insert("deploy.erase_devices".to_owned(), "sda: EIO".to_owned())
    });
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.ask(Verb::Provide).await;
    let node = rig.reaches(S::CleanFail).await;
    assert!(node.maintenance);
    assert_eq!(node.fault.as_deref(), Some("clean failure"));
    assert_eq!(node.maintenance_reason, node.last_error);
    rig.ask(Verb::Manage).await;
    let node = rig.reaches(S::Manageable).await;
    assert!(node.maintenance, "only an operator takes it out");
    rig.service
        .set_maintenance(rig.node, false, None)
        .await
        .unwrap();
    assert_eq!(rig.node().await.fault, None);
}
