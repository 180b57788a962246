//! Limits on what runs at the same time, and the queues before them.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use uuid::Uuid;
use wrought_rpc::Conductor;
use wrought_rpc::Kind;
use wrought_store::HistoryQuery;
use wrought_store::node::Node;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;
use super::rig::request;
use crate::config::Config;
use crate::periodic::run_now;
use crate::testing;

/// The rig's own machine is in `clean wait` for ever and has the only place.
async fn full(settings: impl FnOnce(&mut Config)) -> Rig {
    let rig = Rig::with(
        "redfish",
        |config| {
            config.conductor.max_concurrent_clean = 1;
            settings(config);
        },
        |_| {},
    )
    .await;
    rig.machine.knobs(|knobs| knobs.dead = true);
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.ask(Verb::Provide).await;
    rig.reaches(S::CleanWait).await;
    rig
}

async fn another(rig: &Rig, state: S, shape: impl FnOnce(&mut Node)) -> Uuid {
    let mut node = testing::node("fake-hardware");
    node.provision_state = state;
    shape(&mut node);
    rig.store.create_node(&node).await.unwrap();
    node.uuid
}

async fn ask(rig: &Rig, node: Uuid, verb: Verb) -> wrought_rpc::Result<()> {
    rig.service.provision(node, request(verb)).await
}

async fn read(rig: &Rig, node: Uuid) -> Node {
    rig.store.node_by_uuid(node).await.unwrap().unwrap()
}

async fn position(rig: &Rig, node: Uuid) -> Option<u64> {
    rig.store.queue_position(node).await.unwrap()
}

async fn rests(rig: &Rig, node: Uuid, state: S) -> Node {
    rig.until("its turn", async || {
        let node = read(rig, node).await;
        node.provision_state == state && node.reservation.is_none()
    })
    .await;
    read(rig, node).await
}

/// When the node's turn came.
async fn begun(rig: &Rig, node: Uuid) -> jiff::Timestamp {
    let history = rig.store.history(node, &HistoryQuery::default()).await;
    let history = history.unwrap();
    let found = history.iter().find(|row| row.event.starts_with("Begins"));
    found.unwrap().created_at
}

#[tokio::test]
async fn what_finds_no_place_waits_in_the_order_of_arrival() {
    let rig = full(|_| {}).await;
    let mut nodes = Vec::new();
    for place in 1..=4 {
        let node = another(&rig, S::Manageable, |_| {}).await;
        ask(&rig, node, Verb::Provide).await.unwrap();
        let queued = read(&rig, node).await;
        assert_eq!(queued.provision_state, S::Cleaning);
        assert_eq!(queued.target_provision_state, Some(S::Available));
        assert_eq!(queued.reservation, None);
        assert_eq!(Rig::internal(&queued, "queue_position"), place);
        assert_eq!(position(&rig, node).await, Some(place));
        nodes.push(node);
    }
    run_now(&rig.service, "admit_queued_nodes").await;
    run_now(&rig.service, "check_stuck_nodes").await;
    assert_eq!(
        position(&rig, nodes[0]).await,
        Some(1),
        "there is no place yet"
    );
    rig.ask(Verb::Abort).await;
    for node in &nodes {
        let node = rests(&rig, *node, S::Available).await;
        assert_eq!(node.last_error, None);
        for key in ["queued_at", "queue_position"] {
            assert!(!node.driver_internal_info.contains_key(key), "{key}");
        }
        assert_eq!(position(&rig, node.uuid).await, None);
    }
    let turns = join_all(nodes.iter().map(|node| begun(&rig, *node))).await;
    assert!(turns.is_sorted(), "{turns:?}");
}

#[tokio::test]
async fn a_restart_keeps_the_order() {
    let mut rig = full(|_| {}).await;
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let node = another(&rig, S::Manageable, |_| {}).await;
        ask(&rig, node, Verb::Provide).await.unwrap();
        nodes.push(node);
    }
    rig.machine.crash_conductor().await;
    rig.restart().await;
    run_now(&rig.service, "check_stuck_nodes").await;
    run_now(&rig.service, "admit_queued_nodes").await;
    for (node, place) in nodes.iter().zip(1..) {
        assert_eq!(position(&rig, *node).await, Some(place));
        assert_eq!(read(&rig, *node).await.provision_state, S::Cleaning);
    }
    // A row that got lost is made again, with its old place.
    rig.store.dequeue(nodes[0]).await.unwrap();
    run_now(&rig.service, "check_stuck_nodes").await;
    assert_eq!(position(&rig, nodes[0]).await, Some(1));
    rig.ask(Verb::Abort).await;
    for node in &nodes {
        rests(&rig, *node, S::Available).await;
    }
    let turns = join_all(nodes.iter().map(|node| begun(&rig, *node))).await;
    assert!(turns.is_sorted(), "{turns:?}");
}

#[tokio::test]
async fn a_full_queue_refuses_and_leaves_the_node_as_it_is() {
    let rig = full(|config| config.conductor.provision_queue_size = 1).await;
    let first = another(&rig, S::Manageable, |_| {}).await;
    ask(&rig, first, Verb::Provide).await.unwrap();
    let second = another(&rig, S::Manageable, |_| {}).await;
    let refused = ask(&rig, second, Verb::Provide).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Busy);
    assert!(refused.message.contains("clean"), "{}", refused.message);
    let node = read(&rig, second).await;
    assert_eq!(
        (node.provision_state, node.reservation),
        (S::Manageable, None)
    );
    // Other kinds of operations have a lane of their own.
    let other = another(&rig, S::Available, |_| {}).await;
    ask(&rig, other, Verb::Active).await.unwrap();
    rests(&rig, other, S::Active).await;
}

#[tokio::test]
async fn requests_that_come_together_do_not_share_a_place() {
    let rig = Rig::with(
        "redfish",
        |config| config.conductor.max_concurrent_clean = 3,
        |_| {},
    )
    .await;
    rig.machine.knobs(|knobs| knobs.dead = true);
    let redfish = |node: &mut Node| {
        *node = testing::node("redfish");
        node.provision_state = S::Manageable;
        let bmc = json!("https://bmc.test");
        node.driver_info.insert("redfish_address".to_owned(), bmc);
        node.interfaces
            .insert("boot".to_owned(), "redfish-virtual-media".to_owned());
    };
    let mut nodes = Vec::new();
    for _ in 0..12 {
        nodes.push(another(&rig, S::Manageable, redfish).await);
    }
    let asked = nodes.iter().map(|node| ask(&rig, *node, Verb::Provide));
    for asked in join_all(asked).await {
        asked.unwrap();
    }
    rig.until("three at work", async || {
        let at_work = rig.store.nodes_at_work(&[S::Cleaning, S::CleanWait]).await;
        let at_work = at_work.unwrap().len();
        assert!(at_work <= 3, "{at_work}");
        at_work == 3
    })
    .await;
    assert_eq!(rig.store.queue_length("clean").await.unwrap(), 9);
}

#[tokio::test]
async fn without_a_free_worker_a_request_waits() {
    let rig = Rig::with(
        "fake-hardware",
        |config| config.conductor.workers = 1,
        |_| {},
    )
    .await;
    rig.make_available().await;
    // The worker of what has just ended may still be on its way home.
    let permit = loop {
        if let Ok(permit) = rig.service.permit() {
            break permit;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    rig.ask(Verb::Active).await;
    assert_eq!(rig.node().await.provision_state, S::Deploying);
    assert_eq!(position(&rig, rig.node).await, Some(1));
    run_now(&rig.service, "admit_queued_nodes").await;
    assert_eq!(position(&rig, rig.node).await, Some(1));
    drop(permit);
    run_now(&rig.service, "admit_queued_nodes").await;
    rig.reaches(S::Active).await;
}

#[tokio::test]
async fn cleaning_after_a_tear_down_waits_as_well() {
    let rig = full(|config| config.conductor.provision_queue_size = 0).await;
    let node = another(&rig, S::Active, |node| {
        node.instance_uuid = Some(Uuid::new_v4());
    })
    .await;
    ask(&rig, node, Verb::Deleted).await.unwrap();
    let node = rests(&rig, node, S::Cleaning).await;
    assert_eq!(
        node.instance_uuid, None,
        "the tear-down itself does not wait"
    );
    assert_eq!(
        position(&rig, node.uuid).await,
        Some(1),
        "nor is it refused"
    );
    rig.ask(Verb::Abort).await;
    rests(&rig, node.uuid, S::Available).await;
}

#[tokio::test]
async fn a_node_that_is_deleted_leaves_the_queue() {
    let rig = full(|_| {}).await;
    let first = another(&rig, S::Manageable, |_| {}).await;
    let second = another(&rig, S::Manageable, |_| {}).await;
    for node in [first, second] {
        ask(&rig, node, Verb::Provide).await.unwrap();
    }
    rig.service
        .set_maintenance(first, true, None)
        .await
        .unwrap();
    rig.service.destroy_node(first).await.unwrap();
    assert_eq!(position(&rig, second).await, Some(1));
    rig.ask(Verb::Abort).await;
    rests(&rig, second, S::Available).await;
}

#[tokio::test]
async fn a_node_that_waits_can_be_aborted() {
    let rig = full(|_| {}).await;
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let node = another(&rig, S::Manageable, |_| {}).await;
        ask(&rig, node, Verb::Provide).await.unwrap();
        nodes.push(node);
    }
    ask(&rig, nodes[0], Verb::Abort).await.unwrap();
    let node = read(&rig, nodes[0]).await;
    assert_eq!(
        (node.provision_state, node.reservation),
        (S::CleanFail, None)
    );
    assert_eq!(
        node.last_error.as_deref(),
        Some("By request, the clean operation was aborted while it waited for its turn")
    );
    assert!(!node.maintenance, "nothing was done to it");
    for key in ["queued_at", "queue_position"] {
        assert!(!node.driver_internal_info.contains_key(key), "{key}");
    }
    assert_eq!(position(&rig, nodes[0]).await, None);
    assert_eq!(
        position(&rig, nodes[1]).await,
        Some(1),
        "the others move up"
    );
    let again = ask(&rig, nodes[0], Verb::Abort).await.unwrap_err();
    assert_eq!(again.kind, Kind::InvalidState, "{again}");
    // Nothing of it comes back, neither by a check nor by its former turn.
    run_now(&rig.service, "check_stuck_nodes").await;
    ask(&rig, nodes[0], Verb::Manage).await.unwrap();
    rests(&rig, nodes[0], S::Manageable).await;
    rig.ask(Verb::Abort).await;
    for node in &nodes[1..] {
        rests(&rig, *node, S::Available).await;
    }
    assert_eq!(read(&rig, nodes[0]).await.provision_state, S::Manageable);
}

#[tokio::test]
async fn an_instance_that_waits_for_its_deploy_can_be_deleted() {
    let rig = Rig::with(
        "redfish",
        |config| config.conductor.max_concurrent_deploy = 1,
        |_| {},
    )
    .await;
    rig.make_available().await;
    rig.machine.knobs(|knobs| knobs.dead = true);
    rig.set_image().await;
    rig.ask(Verb::Active).await;
    rig.reaches(S::DeployWait).await;
    let node = another(&rig, S::Available, |node| {
        node.instance_uuid = Some(Uuid::new_v4());
        node.automated_clean = Some(false);
    })
    .await;
    ask(&rig, node, Verb::Active).await.unwrap();
    assert_eq!(position(&rig, node).await, Some(1));
    let refused = ask(&rig, node, Verb::Manage).await.unwrap_err();
    assert_eq!(refused.kind, Kind::InvalidState, "{refused}");
    ask(&rig, node, Verb::Deleted).await.unwrap();
    let shown = rests(&rig, node, S::Available).await;
    assert_eq!(shown.instance_uuid, None);
    assert_eq!(position(&rig, node).await, None);
    run_now(&rig.service, "admit_queued_nodes").await;
    assert_eq!(read(&rig, node).await.provision_state, S::Available);
}

#[tokio::test]
async fn deploys_and_inspections_have_limits_of_their_own() {
    let rig = Rig::with(
        "redfish",
        |config| {
            config.conductor.max_concurrent_deploy = 1;
            config.conductor.max_concurrent_inspect = 1;
        },
        |node| {
            node.interfaces
                .insert("inspect".to_owned(), "agent".to_owned());
        },
    )
    .await;
    rig.machine.knobs(|knobs| knobs.dead = true);
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.ask(Verb::Inspect).await;
    rig.reaches(S::InspectWait).await;
    let inspected = another(&rig, S::Manageable, |_| {}).await;
    ask(&rig, inspected, Verb::Inspect).await.unwrap();
    assert_eq!(position(&rig, inspected).await, Some(1));
    let deployed = another(&rig, S::Available, |_| {}).await;
    ask(&rig, deployed, Verb::Active).await.unwrap();
    rests(&rig, deployed, S::Active).await;
    rig.ask(Verb::Abort).await;
    rests(&rig, inspected, S::Manageable).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(rig.store.queue_length("inspect").await.unwrap(), 0);
}
