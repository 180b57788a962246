//! Commands are run one at a time and answered as ironic-python-agent does.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;
use tokio::sync::Notify;
use wrought_wire::command::CommandStatus;
use wrought_wire::progress::Progress;

use super::Rejected;
use super::Runner;
use crate::command::Agent;
use crate::command::Args;
use crate::command::CommandFailure;
use crate::command::Mode;
use crate::command::Registry;

fn runner(registry: Registry) -> Arc<Runner> {
    Arc::new(Runner::new(Arc::new(Agent::for_tests()), registry))
}

fn sample() -> Registry {
    let mut registry = Registry::default();
    registry
        .blocking("demo.text", Mode::Sync, |_, _| Ok(json!("done")))
        .blocking("demo.text_later", Mode::Async, |_, _| Ok(json!("done")))
        .task("demo.nothing", Mode::Sync, async |_, _| Ok(Value::Null))
        .blocking("demo.fail", Mode::Sync, |_, _| {
            Err(CommandFailure::execution("no luck"))
        })
        .blocking("demo.mismatch", Mode::Async, |_, _| {
            Err(CommandFailure::version_mismatch("1 is not 2"))
        })
        .blocking("demo.panic", Mode::Async, |_, _| panic!("on purpose"))
        .check("demo.text", |args| match args.get("bad") {
            Some(_) => Err("'bad' is not wanted".to_owned()),
            None => Ok(()),
        });
    registry
}

#[tokio::test]
async fn results_are_shaped_for_the_wire() {
    let runner = runner(sample());
    let run = async |name: &str| runner.execute(name, Args::new(), true).await.unwrap();

    let text = run("demo.text").await;
    assert_eq!(text.command_name, "text");
    assert_eq!(text.command_result, Some(json!({"result": "done"})));
    let later = run("demo.text_later").await;
    assert_eq!(
        later.command_result,
        Some(json!({"result": "text_later: done"}))
    );
    assert_eq!(run("demo.nothing").await.command_result, None);

    let fail = run("demo.fail").await;
    assert_eq!(
        (fail.command_name.as_str(), fail.command_status),
        ("demo.fail", CommandStatus::Failed)
    );
    assert_eq!(fail.command_error.unwrap().details, "no luck");
    let mismatch = run("demo.mismatch").await;
    assert_eq!(mismatch.command_name, "mismatch");
    assert_eq!(mismatch.command_status, CommandStatus::VersionMismatch);
    let panicked = run("demo.panic").await;
    assert_eq!(panicked.command_status, CommandStatus::Failed);

    assert_eq!(runner.list().len(), 6);
    assert_eq!(
        *runner.finished().borrow(),
        3,
        "one count per asynchronous command"
    );
    assert_eq!(runner.result(text.id, true).await.unwrap().id, text.id);
    assert!(runner.result(uuid::Uuid::new_v4(), true).await.is_none());
}

#[tokio::test]
async fn what_cannot_run_is_refused_before_it_starts() {
    let runner = runner(sample());
    for (name, args, rejected) in [
        ("nodot", json!({}), Rejected::Name),
        (
            "nosuch.thing",
            json!({}),
            Rejected::Extension("nosuch".to_owned()),
        ),
        (
            "demo.thing",
            json!({}),
            Rejected::Command("thing".to_owned()),
        ),
        (
            "demo.text",
            json!({"bad": 1}),
            Rejected::Args("'bad' is not wanted".to_owned()),
        ),
    ] {
        let Value::Object(args) = args else {
            unreachable!()
        };
        assert_eq!(
            runner.execute(name, args, true).await.unwrap_err(),
            rejected
        );
    }
    assert!(runner.list().is_empty());
}

#[tokio::test]
async fn one_at_a_time_with_progress() {
    let gate = Arc::new(Notify::new());
    let mut registry = sample();
    let inner = Arc::clone(&gate);
    registry.task("demo.slow", Mode::Async, move |context, _| {
        let gate = Arc::clone(&inner);
        async move {
            context.progress.set(Progress {
                bytes_in: 7,
                ..Progress::default()
            });
            gate.notified().await;
            Ok(json!({"cancelled": context.cancel.is_cancelled()}))
        }
    });
    let runner = runner(registry);
    let slow = runner
        .execute("demo.slow", Args::new(), false)
        .await
        .unwrap();
    assert_eq!(slow.command_status, CommandStatus::Running);

    let busy = runner
        .execute("demo.text", Args::new(), true)
        .await
        .unwrap_err();
    assert_eq!(busy, Rejected::Busy("slow".to_owned()));
    assert_eq!(busy.status(), 409);
    runner.wait_latest(Duration::from_millis(20)).await;
    let running = runner.result(slow.id, false).await.unwrap();
    assert_eq!(running.command_result.unwrap()["progress"]["bytes_in"], 7);

    runner.cancel();
    gate.notify_one();
    runner.wait_latest(Duration::from_secs(10)).await;
    let done = runner.result(slow.id, false).await.unwrap();
    assert_eq!(done.command_result, Some(json!({"cancelled": true})));
    assert!(runner.execute("demo.text", Args::new(), true).await.is_ok());
}

#[tokio::test]
async fn a_large_result_goes_when_the_next_command_starts() {
    let mut registry = sample();
    registry.blocking("demo.large", Mode::Sync, |_, _| {
        Ok(json!({"log": "x".repeat(100_000)}))
    });
    let runner = runner(registry);
    let large = runner
        .execute("demo.large", Args::new(), true)
        .await
        .unwrap();
    assert!(large.command_result.is_some());
    runner
        .execute("demo.text", Args::new(), true)
        .await
        .unwrap();
    let large = runner.result(large.id, false).await.unwrap();
    assert_eq!(
        (large.command_status, large.command_result),
        (CommandStatus::Succeeded, None)
    );
}

#[test]
fn an_older_epoch_is_refused() {
    let runner = runner(sample());
    assert!(runner.note_epoch(5).is_ok());
    assert!(runner.note_epoch(5).is_ok());
    assert_eq!(
        runner.note_epoch(4),
        Err(Rejected::Epoch { found: 4, seen: 5 })
    );
}
