//! Managers that are small shell scripts.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use serde_json::json;

use super::Managers;
use super::Work;
use super::describe;
use crate::command::Agent;
use crate::command::CancelToken;
use crate::command::Context;

fn write(folder: &Path, name: &str, text: &str, mode: u32) {
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
}

fn parse(said: &Value) -> Result<super::Manager, String> {
    describe::read(Path::new("/x/fans"), said.to_string().as_bytes())
}

#[test]
fn a_description_becomes_a_manager() {
    let manager = parse(&json!({
        "contract": 1, "version": "2", "support": 3,
        "steps": [
            {"interface": "management", "step": "flash", "kinds": ["clean", "service"],
             "priority": {"clean": 30}, "timeout": 60, "reboot_requested": true,
             "argsinfo": {"file": {"description": "What to flash"}}},
        ],
    }));
    let manager = manager.unwrap();
    let is = (
        manager.name.as_str(),
        manager.version.as_str(),
        manager.support,
    );
    assert_eq!(is, ("fans", "2", 3));
    let step = &manager.steps[0];
    let priorities = [("clean".to_owned(), 30), ("service".to_owned(), 0)];
    assert_eq!(step.priorities, priorities);
    assert_eq!(step.timeout, 60);
    assert_eq!(step.shown["reboot_requested"], true);
    assert_eq!(step.shown["repeatable"], false, "only when it says so");
}

#[test]
fn what_is_wrong_with_a_description_is_said() {
    let with = |key: &str, value: Value| {
        let mut said = json!({"contract": 1, "version": "1", "support": 1, "steps": [
            {"interface": "deploy", "step": "flash", "kinds": ["clean"]},
        ]});
        said["steps"][0][key] = value;
        said
    };
    for (bad, says) in [
        (
            json!({"contract": 1, "support": 1}),
            "missing field `version`",
        ),
        (
            json!({"contract": 1, "support": 1, "version": ""}),
            "\"version\" is empty",
        ),
        (
            json!({"contract": 2, "support": 1, "version": "1"}),
            "follows contract 2, this agent knows 1",
        ),
        (
            json!({"contract": 1, "support": 4, "version": "1"}),
            "support 4 is none of 0",
        ),
        (
            with("interface", json!("fans")),
            "interface \"fans\" is none of bios",
        ),
        (with("step", json!("Set Fans")), "must be of a-z"),
        (with("kinds", json!([])), "\"kinds\" is empty"),
        (
            with("kinds", json!(["verify"])),
            "kind \"verify\" is none of clean",
        ),
        (with("priority", json!(-1)), "priority -1 is below 0"),
        (with("wants", json!([])), "unknown field `wants`"),
    ] {
        let problem = parse(&bad).unwrap_err();
        assert!(problem.contains(says), "{problem}");
    }
}

const FINE: &str = r#"
case "$1" in
describe)
    grep -q '"uuid":"here"' || exit 4
    echo '{"contract": 1, "name": "acme", "version": "7", "support": 3, "steps": ['
    echo '{"interface": "vendor", "step": "flash", "kinds": ["clean"], "timeout": 20}]}'
    ;;
run)
    input=$(cat)
    echo '{"progress": 40.5, "message": "flashing"}'
    echo "the vendor's own chatter"
    case "$input" in
    *fail*) echo '{"status": "failed", "message": "the controller says no"}' ;;
    *silent*) ;;
    *dies*) echo '{"status": "done"}'; echo oh >&2; exit 3 ;;
    *hangs*) sleep 600 ;;
    *) echo '{"status": "done", "reboot": true, "result": {"was": "1.0", "is": "1.1"}}' ;;
    esac
    ;;
esac"#;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "acme", FINE, 0o755);
    folder
}

#[test]
fn only_those_that_are_sound_and_support_this_machine() {
    let folder = folder();
    let other = |name: &str, support: u8| {
        format!(
            "echo '{{\"contract\": 1, \"name\": \"{name}\", \"version\": \"1\", \"support\": {support}}}'"
        )
    };
    write(folder.path(), "b-not-here", &other("b", 0), 0o755);
    write(folder.path(), "c-open", &other("c", 1), 0o777);
    write(folder.path(), "d-data", &other("d", 1), 0o644);
    write(folder.path(), "e-taken", &other("acme", 1), 0o755);
    write(folder.path(), "f-ours", &other("wrought", 1), 0o755);
    write(folder.path(), "g-broken", "echo no; exit 1", 0o755);
    write(folder.path(), ".h-hidden", &other("h", 1), 0o755);
    let managers = Managers::new(folder.path().to_owned());
    let cancel = CancelToken::default();
    let found = managers.look(&json!({"uuid": "here"}), &json!([]), &cancel);
    let names: Vec<&str> = found.iter().map(|manager| manager.name.as_str()).collect();
    assert_eq!(names, ["acme"]);
    // Without a new look what was found stays.
    write(folder.path(), "i-late", &other("late", 1), 0o755);
    let known = managers.known(&json!({}), &json!([]), &cancel);
    assert_eq!(known.len(), 1);
    assert!(
        Managers::new("/no/such/folder".into())
            .known(&json!({}), &json!([]), &cancel)
            .is_empty()
    );
}

#[test]
fn a_step_runs_with_its_arguments_and_tells_how_it_ended() {
    let folder = folder();
    let managers = Managers::new(folder.path().to_owned());
    let context = Context::new(Arc::new(Agent::for_tests()));
    let node = json!({"uuid": "here"});
    let found = managers.look(&node, &json!([]), &context.cancel);
    let (manager, step) = (&found[0], &found[0].steps[0]);
    let run = |args: Value| {
        let work = Work {
            kind: "clean",
            args: &args,
            node: &node,
            ports: &json!([]),
        };
        super::run(&context, manager, step, &work)
    };
    let ran = run(json!({"file": "x"})).unwrap();
    assert!(ran.reboot);
    assert_eq!(ran.result, json!({"was": "1.0", "is": "1.1"}));
    let progress = context.progress.get().unwrap();
    assert_eq!(
        (progress.stage.as_str(), progress.percent),
        ("vendor.flash", Some(40))
    );
    for (args, says) in [
        (
            json!("fail"),
            "hardware manager acme: the controller says no",
        ),
        (
            json!("silent"),
            "hardware manager acme: it ended without a last line that has a status; it printed: \
             the vendor's own chatter",
        ),
        (
            json!("dies"),
            "hardware manager acme: it ended with exit status: 3; its error output ends with: oh",
        ),
    ] {
        assert_eq!(run(args).unwrap_err().to_string(), says);
    }
}

#[test]
fn a_step_has_only_its_time() {
    let folder = folder();
    let managers = Managers::new(folder.path().to_owned());
    let context = Context::new(Arc::new(Agent::for_tests()));
    let node = json!({"uuid": "here"});
    let found = managers.look(&node, &json!([]), &context.cancel);
    let step = super::ManagerStep {
        interface: "vendor".to_owned(),
        step: "flash".to_owned(),
        priorities: Vec::new(),
        shown: serde_json::Map::new(),
        timeout: 1,
    };
    let work = Work {
        kind: "clean",
        args: &json!("hangs"),
        node: &node,
        ports: &json!([]),
    };
    let error = super::run(&context, &found[0], &step, &work).unwrap_err();
    let text = crate::command::CommandFailure::chain(&error);
    assert_eq!(
        text,
        "hardware manager acme: it did not end within 1 s and was killed"
    );
}
