//! Servicing.

use std::time::Duration;

use serde_json::Value;
use serde_json::json;
use wrought_rpc::Conductor;
use wrought_rpc::Kind;
use wrought_rpc::ProvisionRequest;
use wrought_store::node::Node;
use wrought_wire::state::PowerState;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;
use super::rig::request;
use crate::Config;

fn service(steps: &[(&str, &str)]) -> ProvisionRequest {
    let steps = steps
        .iter()
        .map(|(interface, step)| json!({"interface": interface, "step": step}));
    ProvisionRequest {
        service_steps: Some(steps.collect()),
        ..request(Verb::Service)
    }
}

/// A node with an instance.
async fn deployed() -> Rig {
    deployed_with(|_| {}).await
}

async fn deployed_with(settings: impl FnOnce(&mut Config)) -> Rig {
    let rig = Rig::with("redfish", settings, |node| {
        node.automated_clean = Some(false)
    })
    .await;
    rig.make_available().await;
    rig.deploy().await;
    rig
}

async fn fake(state: S) -> Rig {
    Rig::with(
        "fake-hardware",
        |_| {},
        |node| {
            node.provision_state = state;
            node.automated_clean = Some(false);
        },
    )
    .await
}

async fn ask(rig: &Rig, steps: &[(&str, &str)]) {
    let asked = rig.service.provision(rig.node, service(steps)).await;
    asked.unwrap();
}

/// Waits until the agent works at a step.
async fn at_step(rig: &Rig, step: &str) {
    rig.until(step, async || {
        rig.machine.count(&format!("run {step}")) >= 1
            && rig.node().await.provision_state == S::ServiceWait
    })
    .await;
}

fn is_forgotten(node: &Node) {
    for key in [
        "service_steps",
        "service_step_index",
        "service_disable_ramdisk",
        "wrought_service_ramdisk",
        "wrought_boot",
        "agent_url",
        "agent_secret_token",
        "agent_cached_service_steps",
    ] {
        assert!(
            !node.driver_internal_info.contains_key(key),
            "{key} is left"
        );
    }
    assert!(node.service_step.is_empty());
}

#[tokio::test]
async fn by_the_ramdisk_in_the_given_order_then_back_to_the_instance() {
    let rig = deployed().await;
    let before = rig.machine.logged().len();
    rig.machine
        .knobs(|knobs| knobs.step_time = Duration::from_millis(300));
    let steps = [("raid", "create_configuration"), ("deploy", "burnin_cpu")];
    ask(&rig, &steps).await;
    at_step(&rig, "raid.create_configuration").await;
    let node = rig.node().await;
    assert_eq!(node.target_provision_state, Some(S::Active));
    assert_eq!(node.service_step["step"], "create_configuration");
    assert_eq!(Rig::internal(&node, "service_step_index"), 0);
    assert_eq!(
        Rig::internal(&node, "service_steps")
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let node = rig.reaches(S::Active).await;
    is_forgotten(&node);
    assert_eq!(
        (node.last_error, node.power_state),
        (None, Some(PowerState::On))
    );
    assert!(!node.instance_info.is_empty());
    let log = rig.machine.logged().split_off(before);
    let log: Vec<&str> = log.iter().map(String::as_str).collect();
    assert_eq!(
        log,
        [
            "power off",
            "boot device pxe once",
            "power on",
            "boots pxe",
            "run service.get_service_steps",
            "run raid.create_configuration",
            "done raid.create_configuration",
            "run deploy.burnin_cpu",
            "done deploy.burnin_cpu",
            "power off",
            "boot device disk always",
            "power on",
            "boots disk",
        ]
    );
    let body = rig.machine.body("service.execute_service_step");
    assert_eq!(body["params"]["service_version"], json!({"generic": "1.2"}));
}

#[tokio::test]
async fn a_step_may_ask_for_a_restart() {
    let rig = deployed().await;
    let before = rig.machine.count("boots pxe");
    ask(&rig, &[("deploy", "restart"), ("deploy", "burnin_cpu")]).await;
    rig.until("end", async || {
        rig.machine.count("done deploy.burnin_cpu") == 1
    })
    .await;
    rig.reaches(S::Active).await;
    assert_eq!(rig.machine.count("boots pxe"), before + 2);
    assert_eq!(rig.machine.count("run deploy.restart"), 1);
}

#[tokio::test]
async fn steps_of_the_conductor_need_no_ramdisk() {
    let rig = fake(S::Active).await;
    ask(&rig, &[("vendor", "log_passthrough")]).await;
    let node = rig.reaches(S::Active).await;
    is_forgotten(&node);
    assert_eq!((node.last_error, node.maintenance), (None, false));
    assert_eq!(node.power_state, None, "nothing was switched");
}

#[tokio::test]
async fn from_manageable_back_to_manageable() {
    let rig = Rig::new().await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    ask(&rig, &[("deploy", "burnin_cpu")]).await;
    at_step(&rig, "deploy.burnin_cpu").await;
    let node = rig.node().await;
    assert_eq!(node.target_provision_state, Some(S::Manageable));
    let node = rig.reaches(S::Manageable).await;
    is_forgotten(&node);
    assert!(!rig.machine.is_on(), "there is no instance to be started");
    assert_eq!(rig.machine.count("boot device disk always"), 0);
    // What fails or is stopped there leads there as well.
    ask(&rig, &[("deploy", "polish")]).await;
    let node = rig.reaches(S::ServiceFail).await;
    assert_eq!(node.target_provision_state, Some(S::Manageable));
    rig.ask(Verb::Abort).await;
    rig.reaches(S::Manageable).await;
}

#[tokio::test]
async fn without_the_ramdisk_where_that_is_asked_for() {
    let rig = deployed().await;
    let before = rig.machine.logged().len();
    let asked = ProvisionRequest {
        disable_ramdisk: Some(true),
        ..service(&[("deploy", "burnin_cpu")])
    };
    rig.service.provision(rig.node, asked).await.unwrap();
    let node = rig.reaches(S::ServiceFail).await;
    let error = node.last_error.clone().unwrap();
    assert!(
        error.starts_with("service step deploy.burnin_cpu is not known"),
        "{error}"
    );
    assert!(!node.maintenance, "no step was running");
    assert!(rig.machine.is_on(), "the instance was left alone");
    let log = rig.machine.logged().split_off(before);
    assert!(!log.iter().any(|line| line.starts_with("boot")), "{log:?}");
    // The same for cleaning.
    let rig = Rig::new().await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    let clean = ProvisionRequest {
        clean_steps: Some(vec![
            json!({"interface": "deploy", "step": "erase_devices"}),
        ]),
        disable_ramdisk: Some(true),
        ..request(Verb::Clean)
    };
    rig.service.provision(rig.node, clean).await.unwrap();
    rig.reaches(S::CleanFail).await;
    assert_eq!(rig.machine.count("boots pxe"), 0);
}

#[tokio::test]
async fn is_refused_without_steps_and_in_maintenance() {
    let rig = fake(S::Active).await;
    let refused = rig.service.provision(rig.node, request(Verb::Service));
    let refused = refused.await.unwrap_err();
    assert_eq!(refused.kind, Kind::InvalidParameter);
    assert!(refused.message.contains("service_steps"), "{refused}");
    let service_of = || service(&[("vendor", "log_passthrough")]);
    let maintenance = rig.service.set_maintenance(rig.node, true, None);
    maintenance.await.unwrap();
    let refused = rig.service.provision(rig.node, service_of()).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, Kind::InvalidParameter);
    assert!(refused.message.contains("maintenance"), "{refused}");
    assert_eq!(rig.node().await.provision_state, S::Active);
}

#[tokio::test]
async fn a_failed_step_sets_maintenance_and_can_be_followed_by_another_service() {
    let rig = deployed().await;
    rig.machine.knobs(|knobs| {
        let story = "CPU 3 is broken".to_owned();
        knobs.failing.insert("deploy.burnin_cpu".to_owned(), story)
    });
    ask(&rig, &[("deploy", "burnin_cpu")]).await;
    let node = rig.reaches(S::ServiceFail).await;
    let error = node.last_error.clone().unwrap();
    assert!(
        error.starts_with("Agent returned error for service step deploy.burnin_cpu on node")
            && error.ends_with("CPU 3 is broken"),
        "{error}"
    );
    assert!(node.maintenance);
    assert_eq!(node.fault.as_deref(), Some("service failure"));
    assert_eq!(node.maintenance_reason, node.last_error);
    assert!(rig.machine.is_on(), "for somebody to look at");
    let refused = rig.service.provision(rig.node, request(Verb::Abort)).await;
    assert_eq!(refused.unwrap_err().kind, Kind::Conflict);
    rig.service
        .set_maintenance(rig.node, false, None)
        .await
        .unwrap();
    rig.machine.knobs(|knobs| knobs.failing.clear());
    ask(&rig, &[("deploy", "burnin_cpu")]).await;
    rig.until("end", async || {
        rig.node().await.provision_state == S::Active
    })
    .await;
    let node = rig.reaches(S::Active).await;
    is_forgotten(&node);
    assert_eq!(rig.machine.logged().last().unwrap(), "boots disk");
}

#[tokio::test]
async fn an_abort_brings_the_instance_back() {
    let rig = deployed().await;
    rig.machine
        .knobs(|knobs| knobs.step_time = Duration::from_secs(60));
    ask(&rig, &[("deploy", "burnin_cpu")]).await;
    at_step(&rig, "deploy.burnin_cpu").await;
    rig.ask(Verb::Abort).await;
    assert_eq!(rig.node().await.provision_state, S::Active, "at once");
    let node = rig.reaches(S::Active).await;
    is_forgotten(&node);
    assert_eq!(
        node.last_error.as_deref(),
        Some("By request, the service operation was aborted")
    );
    assert!(!node.maintenance && node.power_state == Some(PowerState::On));
    assert_eq!(rig.machine.logged().last().unwrap(), "boots disk");
}

#[tokio::test]
async fn an_abort_waits_for_a_step_that_must_not_be_cut_short() {
    let rig = deployed().await;
    rig.machine
        .knobs(|knobs| knobs.step_time = Duration::from_millis(600));
    ask(
        &rig,
        &[("raid", "create_configuration"), ("deploy", "burnin_cpu")],
    )
    .await;
    at_step(&rig, "raid.create_configuration").await;
    rig.ask(Verb::Abort).await;
    assert_eq!(rig.node().await.service_step["abort_after"], true);
    let node = rig.reaches(S::ServiceFail).await;
    assert_eq!(
        node.last_error.as_deref(),
        Some(
            "By request, the service operation was aborted during or after the completion of step \
             \"raid.create_configuration\""
        )
    );
    assert_eq!(rig.machine.count("run deploy.burnin_cpu"), 0);
    assert_eq!(rig.machine.logged().last().unwrap(), "boots disk");
    rig.ask(Verb::Abort).await;
    let node = rig.reaches(S::Active).await;
    is_forgotten(&node);
}

#[tokio::test]
async fn an_abort_that_fails_holds_the_node_back() {
    let rig = deployed().await;
    rig.machine
        .knobs(|knobs| knobs.step_time = Duration::from_secs(60));
    ask(&rig, &[("deploy", "burnin_cpu")]).await;
    at_step(&rig, "deploy.burnin_cpu").await;
    rig.machine.knobs(|knobs| knobs.bmc_gone = true);
    rig.ask(Verb::Abort).await;
    let node = rig.reaches(S::Active).await;
    let error = node.last_error.clone().unwrap();
    assert!(
        error.starts_with("Failed to tear down servicing after aborting the operation"),
        "{error}"
    );
    assert!(node.maintenance);
    assert_eq!(node.fault.as_deref(), Some("service failure"));
}

#[tokio::test]
async fn silence_ends_in_a_time_out() {
    let rig = deployed_with(|config| {
        config.conductor.check_interval = 1;
        config.conductor.service_callback_timeout = 1;
    })
    .await;
    rig.machine.knobs(|knobs| knobs.dead = true);
    ask(&rig, &[("deploy", "burnin_cpu")]).await;
    let node = rig.reaches(S::ServiceFail).await;
    assert_eq!(
        node.last_error.as_deref(),
        Some(
            "Timeout reached while servicing the node. Please check if the ramdisk responsible for \
             the servicing is running on the node. Failed on step {}."
        )
    );
    assert_eq!(node.target_provision_state, Some(S::Active));
    assert!(!node.maintenance, "no step was running");
}

#[tokio::test]
async fn an_instance_is_torn_down_in_the_middle_of_a_service() {
    let rig = deployed().await;
    rig.machine
        .knobs(|knobs| knobs.step_time = Duration::from_secs(60));
    ask(&rig, &[("deploy", "burnin_cpu")]).await;
    at_step(&rig, "deploy.burnin_cpu").await;
    rig.ask(Verb::Deleted).await;
    let node = rig.reaches(S::Available).await;
    is_forgotten(&node);
    assert!(node.instance_info.is_empty() && !rig.machine.is_on());
}

/// Killed at many moments of a service: it always ends, the instance runs, and
/// a step of the agent never runs twice in one boot of it.
#[tokio::test]
async fn killed_at_any_moment() {
    let mut rig = deployed().await;
    let mut moment = 5;
    loop {
        let before = rig.machine.logged().len();
        ask(&rig, &[("deploy", "burnin_cpu")]).await;
        tokio::time::sleep(Duration::from_millis(moment)).await;
        let done = rig.node().await.provision_state == S::Active;
        rig.machine.crash_conductor().await;
        rig.restart().await;
        let node = settled(&rig).await;
        let log = rig.machine.logged().split_off(before);
        if node.provision_state == S::ServiceFail {
            // The double's step does not say that it may run again, and its
            // agent was gone: that, and nothing else, ends it.
            let error = node.last_error.unwrap_or_default();
            assert!(error.contains("not known"), "{error}");
            rig.service
                .set_maintenance(rig.node, false, None)
                .await
                .unwrap();
            rig.ask(Verb::Abort).await;
            rig.reaches(S::Active).await;
        } else {
            assert_eq!(node.last_error, None, "after {moment} ms: {log:#?}");
            is_forgotten(&node);
            for boot in log.split(|line| line == "boots pxe") {
                let runs = boot.iter().filter(|line| *line == "run deploy.burnin_cpu");
                assert!(runs.count() <= 1, "after {moment} ms: {log:#?}");
            }
        }
        assert_eq!(rig.machine.logged().last().unwrap(), "boots disk");
        if done {
            return;
        }
        moment += moment / 2 + 10;
    }
}

/// Waits until the service has ended in one way or the other.
async fn settled(rig: &Rig) -> Node {
    rig.until("end", async || {
        let node = rig.node().await;
        matches!(node.provision_state, S::Active | S::ServiceFail) && node.reservation.is_none()
    })
    .await;
    rig.node().await
}

#[tokio::test]
async fn killed_while_an_abort_brings_the_instance_back() {
    let mut rig = deployed().await;
    for moment in [0, 20, 60, 150] {
        rig.machine.knobs(|knobs| {
            knobs.step_time = Duration::from_secs(60);
            knobs.bmc_delay = Duration::from_millis(15);
        });
        let before = rig.machine.count("run deploy.burnin_cpu");
        ask(&rig, &[("deploy", "burnin_cpu")]).await;
        rig.until("step", async || {
            rig.machine.count("run deploy.burnin_cpu") > before
                && rig.node().await.provision_state == S::ServiceWait
        })
        .await;
        rig.ask(Verb::Abort).await;
        tokio::time::sleep(Duration::from_millis(moment)).await;
        rig.machine.crash_conductor().await;
        rig.restart().await;
        rig.until("instance", async || {
            let node = rig.node().await;
            let left = node
                .driver_internal_info
                .contains_key("wrought_service_ramdisk");
            node.reservation.is_none() && !left
        })
        .await;
        let node = rig.reaches(S::Active).await;
        assert!(!node.maintenance, "{:?}", node.last_error);
        assert_eq!(rig.machine.logged().last().unwrap(), "boots disk");
    }
}

#[tokio::test]
async fn held_services_are_aborted_or_served_anew() {
    for (verb, then) in [(Verb::Abort, S::Active), (Verb::Service, S::Active)] {
        let rig = fake(S::ServiceHold).await;
        let mut asked = service(&[("vendor", "log_passthrough")]);
        asked.verb = verb;
        if verb == Verb::Abort {
            asked.service_steps = None;
        }
        rig.service.provision(rig.node, asked).await.unwrap();
        let node = rig.reaches(then).await;
        is_forgotten(&node);
        assert_eq!(Rig::internal(&node, "service_steps"), Value::Null);
    }
}
