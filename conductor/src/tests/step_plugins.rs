//! Operators' own steps: executables that this test writes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;
use wrought_rpc::Conductor;
use wrought_store::node::Node;
use wrought_wire::state::PowerState;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;
use super::rig::request;

/// Writes a plug-in with one step, `vendor.polish`; `more` goes over its
/// description, `run` is what it does with its line of input in `$line`.
fn write(folder: &Path, step: Value, wants: &[&str], run: &str) -> PathBuf {
    let mut described = json!({
        "interface": "vendor", "step": "polish", "kinds": ["clean", "deploy"],
        "argsinfo": {"colour": {"description": "Which", "type": "string"}},
    });
    for (key, value) in step.as_object().unwrap() {
        described[key] = value.clone();
    }
    let said = json!({"contract": 1, "name": "polisher", "wants": wants, "steps": [described]});
    let text = format!(
        "#!/bin/sh\nif [ \"$1\" = describe ]; then cat <<'END'\n{said}\nEND\nexit 0\nfi\n\
         read -r line\nprintf '%s\\n' \"$line\" >> \"$0.log\"\n{run}\n"
    );
    std::fs::create_dir_all(folder).unwrap();
    let path = folder.join("polisher");
    // Never half of it.
    let part = folder.join(".polisher");
    std::fs::write(&part, text).unwrap();
    std::fs::set_permissions(&part, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::rename(&part, &path).unwrap();
    path
}

fn folder(rig: &Rig) -> PathBuf {
    rig.config.conductor.step_plugins_dir.clone()
}

async fn manageable(shape: impl FnOnce(&mut Node)) -> Rig {
    let set = |config: &mut crate::Config| {
        config.conductor.step_plugins_dir = config.state_dir.join("steps.d");
    };
    let rig = Rig::with("fake-hardware", set, shape).await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig
}

/// The lines of input that the plug-in has got.
fn inputs(rig: &Rig) -> Vec<Value> {
    let text = std::fs::read_to_string(folder(rig).join("polisher.log")).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn with_secret(node: &mut Node) {
    let secret = json!("hunter2hunter2");
    node.driver_info
        .insert("redfish_password".to_owned(), secret);
}

#[tokio::test]
async fn a_plugin_runs_on_request_and_by_its_priority_without_a_restart() {
    let rig = manageable(with_secret).await;
    // Nobody starts the conductor anew for it.
    let priorities = json!({"priority": {"clean": 5, "deploy": 120}});
    let run = "echo some noise; echo '{\"progress\": 50}'; echo '{\"status\": \"done\"}'";
    write(&folder(&rig), priorities, &[], run);
    rig.clean(json!([
        {"interface": "vendor", "step": "polish", "args": {"colour": "red"}},
    ]))
    .await;
    let node = rig.reaches(S::Manageable).await;
    assert_eq!(node.last_error, None);
    let got = inputs(&rig);
    assert_eq!(got.len(), 1);
    assert_eq!(got[0]["contract"], 1);
    assert_eq!(got[0]["kind"], "clean");
    assert_eq!(
        got[0]["step"],
        json!({"interface": "vendor", "step": "polish"})
    );
    assert_eq!(got[0]["args"], json!({"colour": "red"}));
    assert_eq!(got[0]["attempt"], 1);
    assert_eq!(got[0]["node"]["uuid"], json!(rig.node));
    assert!(!got[0].to_string().contains("hunter2"), "no secrets");
    rig.ask(Verb::Provide).await;
    rig.reaches(S::Available).await;
    assert_eq!(inputs(&rig).len(), 2, "automated cleaning has it");
    rig.ask(Verb::Active).await;
    rig.reaches(S::Active).await;
    assert_eq!(inputs(&rig)[2]["kind"], "deploy");
    let told = rig.told().await;
    let start = "Starting deploying with steps=[vendor.polish, deploy.deploy]";
    assert!(told.contains(&start.to_owned()), "{told:#?}");
    // One that is gone is forgotten.
    std::fs::remove_file(folder(&rig).join("polisher")).unwrap();
    let mut deploy = request(Verb::Rebuild);
    deploy.deploy_steps = Some(vec![
        json!({"interface": "vendor", "step": "polish", "priority": 50, "args": {}}),
    ]);
    let refused = rig.service.provision(rig.node, deploy).await.unwrap_err();
    assert!(
        refused.message.contains("vendor.polish is not known"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_plugins_arguments_are_checked() {
    let rig = manageable(|_| {}).await;
    write(
        &folder(&rig),
        json!({}),
        &[],
        "echo '{\"status\": \"done\"}'",
    );
    rig.clean(json!([{"interface": "vendor", "step": "polish", "args": {"colour": 3}}]))
        .await;
    let node = rig.reaches(S::CleanFail).await;
    assert_eq!(
        node.last_error.unwrap(),
        "clean step vendor.polish: argument \"colour\": expected string, found number"
    );
    assert!(inputs(&rig).is_empty());
}

#[tokio::test]
async fn a_plugin_that_fails_is_quoted_without_the_secrets_it_wanted() {
    let rig = manageable(with_secret).await;
    let run = "echo \"cannot log in with hunter2hunter2\" >&2\n\
               echo '{\"status\": \"failed\", \"message\": \"no polish for hunter2hunter2\"}'\n\
               exit 3";
    write(&folder(&rig), json!({}), &["driver_info"], run);
    rig.clean(json!([{"interface": "vendor", "step": "polish"}]))
        .await;
    let node = rig.reaches(S::CleanFail).await;
    assert_eq!(
        node.last_error.unwrap(),
        format!(
            "clean step vendor.polish of plug-in polisher on node {} failed: no polish for ****** \
             (ended with exit status: 3; its error output ends with: cannot log in with ******)",
            rig.node
        )
    );
    assert!(node.maintenance);
    let got = inputs(&rig);
    assert_eq!(
        got[0]["node"]["driver_info"]["redfish_password"],
        "hunter2hunter2"
    );
}

#[tokio::test]
async fn a_plugin_that_takes_too_long_is_killed() {
    let rig = manageable(|_| {}).await;
    let path = write(
        &folder(&rig),
        json!({"timeout": 1}),
        &[],
        "echo $$ > \"$0.pid\"; sleep 600; echo '{\"status\": \"done\"}'",
    );
    rig.clean(json!([{"interface": "vendor", "step": "polish"}]))
        .await;
    let node = rig.reaches(S::CleanFail).await;
    assert_eq!(
        node.last_error.unwrap(),
        format!(
            "clean step vendor.polish on node {} did not end within 1 s (the step's own timeout)",
            rig.node
        )
    );
    let pid = std::fs::read_to_string(path.with_extension("pid")).unwrap();
    rig.until("end", async || {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        status.is_err() || status.unwrap().contains(") Z ")
    })
    .await;
}

#[tokio::test]
async fn a_plugin_that_says_nothing_fails() {
    let rig = manageable(|_| {}).await;
    write(&folder(&rig), json!({}), &[], "echo polished");
    rig.clean(json!([{"interface": "vendor", "step": "polish"}]))
        .await;
    let error = rig.reaches(S::CleanFail).await.last_error.unwrap();
    assert!(
        error.ends_with(
            "failed: it ended without a last line that has a status; it printed: polished"
        ),
        "{error}"
    );
}

/// Waits once, then is done.
const POLLED: &str = "case \"$line\" in\n\
    *'\"poll\":true'*) echo '{\"status\": \"done\"}';;\n\
    *) echo '{\"status\": \"wait\", \"seconds\": 1, \"state\": {\"job\": 7}}';;\n\
    esac";

#[tokio::test]
async fn a_plugin_may_be_polled_and_a_crash_does_not_run_it_twice() {
    let mut rig = manageable(|_| {}).await;
    write(&folder(&rig), json!({}), &[], POLLED);
    rig.clean(json!([{"interface": "vendor", "step": "polish"}]))
        .await;
    rig.until("polling", async || {
        let node = rig.node().await;
        node.provision_state == S::CleanWait && Rig::internal(&node, "cleaning_polling") == true
    })
    .await;
    rig.machine.crash_conductor().await;
    rig.restart().await;
    let node = rig.reaches(S::Manageable).await;
    assert!(!node.driver_internal_info.contains_key("cleaning_polling"));
    let got = inputs(&rig);
    assert_eq!(got.len(), 2, "run once, polled once");
    assert_eq!(got[0]["poll"], false);
    assert_eq!(got[1]["poll"], true);
    assert_eq!(got[1]["state"], json!({"job": 7}));
}

#[tokio::test]
async fn an_abort_waits_for_a_polled_step_that_must_not_be_cut_short() {
    let rig = manageable(|_| {}).await;
    let slow = POLLED.replace("\"seconds\": 1", "\"seconds\": 3");
    write(&folder(&rig), json!({}), &[], &slow);
    rig.clean(json!([
        {"interface": "vendor", "step": "polish"},
        {"interface": "vendor", "step": "log_passthrough"},
    ]))
    .await;
    rig.reaches(S::CleanWait).await;
    rig.ask(Verb::Abort).await;
    let node = rig.reaches(S::CleanFail).await;
    assert_eq!(
        node.last_error.unwrap(),
        "By request, the clean operation was aborted during or after the completion of step \
         \"vendor.polish\""
    );
    assert_eq!(inputs(&rig).len(), 2, "it was polled to its end");
    let told = rig.told().await;
    assert!(
        !told
            .iter()
            .any(|event| event.contains("log_passthrough (2")),
        "{told:#?}"
    );
}

#[tokio::test]
async fn a_plugin_that_must_not_run_twice_fails_after_a_crash() {
    let mut rig = manageable(|_| {}).await;
    for (repeatable, runs) in [(false, 1), (true, 3)] {
        let run = match repeatable {
            true => {
                "[ -e \"$0.once\" ] || { touch \"$0.once\"; sleep 600; }; echo '{\"status\": \"done\"}'"
            }
            false => "sleep 600",
        };
        write(&folder(&rig), json!({"repeatable": repeatable}), &[], run);
        let before = inputs(&rig).len();
        rig.clean(json!([{"interface": "vendor", "step": "polish"}]))
            .await;
        rig.until("run", async || inputs(&rig).len() > before).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        rig.machine.crash_conductor().await;
        rig.restart().await;
        if repeatable {
            rig.reaches(S::Manageable).await;
        } else {
            let error = rig.reaches(S::CleanFail).await.last_error.unwrap();
            assert!(error.contains("must not run twice"), "{error}");
            rig.ask(Verb::Manage).await;
            rig.reaches(S::Manageable).await;
        }
        assert_eq!(inputs(&rig).len(), runs);
    }
}

#[tokio::test]
async fn a_plugin_may_ask_for_a_restart_of_the_machine() {
    let rig = manageable(|_| {}).await;
    let run = "echo '{\"status\": \"done\", \"reboot\": true}'";
    write(&folder(&rig), json!({}), &[], run);
    rig.clean(json!([
        {"interface": "vendor", "step": "polish"},
        {"interface": "vendor", "step": "log_passthrough"},
    ]))
    .await;
    let node = rig.reaches(S::Manageable).await;
    assert_eq!(node.power_state, Some(PowerState::On));
    assert!(!node.driver_internal_info.contains_key("cleaning_reboot"));
}

#[tokio::test]
async fn a_plugin_verifies_nodes() {
    let set = |config: &mut crate::Config| {
        config.conductor.step_plugins_dir = config.state_dir.join("steps.d");
        let step = json!({"kinds": ["verify"], "priority": 5, "repeatable": true});
        let run = "echo '{\"status\": \"failed\", \"message\": \"dull\"}'";
        write(&config.conductor.step_plugins_dir, step, &[], run);
    };
    let rig = Rig::with("fake-hardware", set, |_| {}).await;
    rig.ask(Verb::Manage).await;
    rig.until("error", async || rig.node().await.last_error.is_some())
        .await;
    let error = rig.reaches(S::Enroll).await.last_error.unwrap();
    assert!(
        error.contains("failed verify step vendor.polish") && error.ends_with("failed: dull"),
        "{error}"
    );
    assert_eq!(inputs(&rig)[0]["kind"], "verify");
}
