//! The conductor is killed and started anew.

use std::time::Duration;

use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;

#[tokio::test]
async fn killed_while_the_agent_works() {
    let mut rig = Rig::new().await;
    rig.make_available().await;
    rig.machine
        .knobs(|knobs| knobs.step_time = Duration::from_millis(700));
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
    rig.machine.crash_conductor().await;
    // Long enough for the step to end while nobody looks.
    tokio::time::sleep(Duration::from_millis(800)).await;
    rig.restart().await;
    rig.reaches(S::Active).await;
    assert_eq!(
        rig.machine.count("run deploy.write_image"),
        1,
        "nothing runs twice"
    );
    assert_eq!(rig.machine.count("done deploy.write_image"), 1);
}

#[tokio::test]
async fn killed_between_command_and_answer() {
    let mut rig = Rig::new().await;
    rig.make_available().await;
    rig.set_image().await;
    rig.machine.knobs(|knobs| {
        knobs.step_time = Duration::from_millis(300);
        knobs.crash_on_step = Some(());
    });
    rig.ask(Verb::Active).await;
    rig.until("crash", async || {
        rig.machine.count("done deploy.write_image") == 1
    })
    .await;
    let node = rig.node().await;
    assert_eq!(node.provision_state, S::Deploying, "the answer never came");
    rig.restart().await;
    rig.reaches(S::Active).await;
    assert_eq!(
        rig.machine.count("run deploy.write_image"),
        1,
        "the agent was asked first"
    );
}

/// Killed at many moments of a deploy: it always ends, and a step of the agent
/// never runs twice in one boot of it.
#[tokio::test]
async fn killed_at_any_moment() {
    let mut rig = Rig::new().await;
    rig.make_available().await;
    rig.set_image().await;
    let mut moment = 5;
    loop {
        let before = rig.machine.logged().len();
        rig.ask(Verb::Active).await;
        tokio::time::sleep(Duration::from_millis(moment)).await;
        let done = rig.node().await.provision_state == S::Active;
        rig.machine.crash_conductor().await;
        rig.restart().await;
        let node = rig.reaches(S::Active).await;
        assert_eq!(node.last_error, None);
        let log = rig.machine.logged().split_off(before);
        let boots: Vec<&[String]> = log.split(|line| line == "boots pxe").collect();
        for boot in boots {
            let writes = boot
                .iter()
                .filter(|line| *line == "run deploy.write_image")
                .count();
            assert!(writes <= 1, "after {moment} ms: {log:#?}");
        }
        assert_eq!(
            log.last().map(String::as_str),
            Some("boots disk"),
            "{log:#?}"
        );
        rig.ask(Verb::Deleted).await;
        rig.reaches(S::Available).await;
        if done {
            return;
        }
        rig.set_image().await;
        moment += moment / 2 + 10;
    }
}

#[tokio::test]
async fn killed_while_tearing_down_and_cleaning() {
    let mut rig = Rig::new().await;
    rig.make_available().await;
    for moment in [0, 20, 60, 150, 300] {
        rig.deploy().await;
        rig.ask(Verb::Deleted).await;
        tokio::time::sleep(Duration::from_millis(moment)).await;
        rig.machine.crash_conductor().await;
        rig.restart().await;
        let node = rig.reaches(S::Available).await;
        assert!(node.instance_info.is_empty() && node.last_error.is_none());
        assert_eq!(node.reservation, None);
    }
}

#[tokio::test]
async fn orderly_end_gives_locks_back_and_goes_on_later() {
    let mut rig = Rig::new().await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.ask(Verb::Provide).await;
    rig.until("clean wait", async || {
        rig.node().await.provision_state == S::CleanWait
    })
    .await;
    rig.machine.meets(None);
    rig.service.shutdown().await;
    assert_eq!(rig.node().await.reservation, None);
    assert!(!rig.store.conductors().await.unwrap()[0].online);
    rig.restart().await;
    rig.reaches(S::Available).await;
}
