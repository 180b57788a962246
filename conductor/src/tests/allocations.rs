//! Allocations: many at once, conductors that die, and the rules.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use uuid::Uuid;
use wrought_rpc::Conductor;
use wrought_rpc::Kind;
use wrought_rpc::Record;
use wrought_store::Allocation;
use wrought_store::Registration;
use wrought_store::node::Node;
use wrought_wire::state::AllocationState;
use wrought_wire::state::PowerState;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;
use crate::testing;

const CLASS: &str = "baremetal";

fn wanted() -> Allocation {
    Allocation {
        resource_class: Some(CLASS.to_owned()),
        ..Allocation::default()
    }
}

async fn rig() -> Rig {
    Rig::with("fake-hardware", |_| {}, |_| {}).await
}

async fn free_node(rig: &Rig, shape: impl FnOnce(&mut Node)) -> Uuid {
    let mut node = testing::node("fake-hardware");
    node.provision_state = S::Available;
    node.power_state = Some(PowerState::Off);
    node.resource_class = Some(CLASS.to_owned());
    shape(&mut node);
    rig.store.create_node(&node).await.unwrap();
    node.uuid
}

async fn ask(rig: &Rig, allocation: Allocation) -> Allocation {
    let made = rig.service.create_record(allocation.into()).await.unwrap();
    made.try_into().unwrap()
}

async fn read(rig: &Rig, uuid: Uuid) -> Option<Allocation> {
    rig.store.row(uuid).await.unwrap()
}

/// Waits until the allocation looks for a node no longer.
async fn settled(rig: &Rig, uuid: Uuid) -> Allocation {
    for _ in 0..1500 {
        let found = read(rig, uuid).await.unwrap();
        if found.state != AllocationState::Allocating {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("allocation {uuid} still looks for a node");
}

/// Each active one has a node of its own, which tells the same.
async fn agree(rig: &Rig, allocations: &[Allocation]) -> usize {
    let mut nodes = BTreeSet::new();
    let active = allocations
        .iter()
        .filter(|one| one.state == AllocationState::Active);
    for allocation in active {
        let uuid = allocation.node_uuid.unwrap();
        assert!(nodes.insert(uuid), "node {uuid} was given twice");
        let node = rig.store.node_by_uuid(uuid).await.unwrap().unwrap();
        assert_eq!(node.instance_uuid, Some(allocation.uuid));
        assert_eq!(node.allocation_uuid, Some(allocation.uuid));
        assert_eq!(node.reservation, None);
        assert_eq!(allocation.last_error, None);
    }
    nodes.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_at_once_over_ten_nodes() {
    let rig = rig().await;
    for _ in 0..10 {
        free_node(&rig, |_| {}).await;
    }
    let asked = join_all((0..20).map(|_| ask(&rig, wanted()))).await;
    assert!(
        asked
            .iter()
            .all(|one| one.state == AllocationState::Allocating)
    );
    let done = join_all(asked.iter().map(|one| settled(&rig, one.uuid))).await;
    assert_eq!(agree(&rig, &done).await, 10, "{done:#?}");
    let failed: Vec<&Allocation> = done
        .iter()
        .filter(|one| one.state == AllocationState::Error)
        .collect();
    assert_eq!(failed.len(), 10);
    for one in failed {
        assert_eq!(
            one.last_error.as_deref().unwrap(),
            format!(
                "Failed to process allocation {}: no available nodes match the resource class \
                 baremetal.",
                one.uuid
            )
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_between() {
    let mut rig = rig().await;
    for _ in 0..10 {
        free_node(&rig, |_| {}).await;
    }
    let mut asked = Vec::new();
    for moment in [0, 2, 5, 10, 20] {
        let more = join_all((0..4).map(|_| ask(&rig, wanted()))).await;
        asked.extend(more.iter().map(|one| one.uuid));
        tokio::time::sleep(Duration::from_millis(moment)).await;
        rig.machine.crash_conductor().await;
        rig.restart().await;
    }
    let done = join_all(asked.iter().map(|uuid| settled(&rig, *uuid))).await;
    assert_eq!(agree(&rig, &done).await, 10, "{done:#?}");
    let failed = done
        .iter()
        .filter(|one| one.state == AllocationState::Error);
    assert_eq!(failed.count(), 10);
}

#[tokio::test]
async fn left_by_a_conductor_that_is_gone() {
    let mut rig = rig().await;
    let node = free_node(&rig, |_| {}).await;
    let other = Registration::new("other", "", &[]);
    rig.store.register_conductor(&other).await.unwrap();
    let row = |conductor: &str| Allocation {
        conductor: Some(conductor.to_owned()),
        ..wanted()
    };
    let (theirs, gone) = (row("other"), row("long-gone"));
    for allocation in [&theirs, &gone] {
        rig.store.insert(allocation).await.unwrap();
    }
    rig.service.shutdown().await;
    rig.restart().await;
    assert_eq!(settled(&rig, gone.uuid).await.node_uuid, Some(node));
    let kept = read(&rig, theirs.uuid).await.unwrap();
    assert_eq!(
        kept.state,
        AllocationState::Allocating,
        "its own conductor lives"
    );
    let left = rig.store.unregister_conductor("other", other.instance);
    left.await.unwrap();
    crate::allocations::take_up(&rig.service).await.unwrap();
    assert_eq!(
        settled(&rig, theirs.uuid).await.state,
        AllocationState::Error
    );
}

#[tokio::test]
async fn traits_names_and_owners() {
    let rig = rig().await;
    let plain = free_node(&rig, |node| node.name = Some("web".to_owned())).await;
    let golden = free_node(&rig, |node| {
        node.traits = vec!["CUSTOM_GOLD".to_owned(), "CUSTOM_X".to_owned()];
        node.owner = Some("p".to_owned());
    })
    .await;
    let no_trait = Allocation {
        traits: vec!["CUSTOM_NONE".to_owned()],
        ..wanted()
    };
    let failed = settled(&rig, ask(&rig, no_trait).await.uuid).await;
    assert!(failed.last_error.unwrap().contains("CUSTOM_NONE"));
    let gold = Allocation {
        traits: vec!["CUSTOM_GOLD".to_owned()],
        owner: Some("p".to_owned()),
        ..wanted()
    };
    let given = settled(&rig, ask(&rig, gold).await.uuid).await;
    assert_eq!(given.node_uuid, Some(golden));
    let node = rig.store.node_by_uuid(golden).await.unwrap().unwrap();
    assert_eq!(
        node.instance_info["traits"],
        serde_json::json!(["CUSTOM_GOLD"])
    );
    let other = free_node(&rig, |_| {}).await;
    let namesake = Allocation {
        name: Some("web".to_owned()),
        ..wanted()
    };
    let given = settled(&rig, ask(&rig, namesake).await.uuid).await;
    assert_eq!(given.node_uuid, Some(plain));
    let elsewhere = Allocation {
        candidate_nodes: vec![plain],
        ..wanted()
    };
    let failed = settled(&rig, ask(&rig, elsewhere).await.uuid).await;
    assert!(failed.last_error.unwrap().contains("candidate"));
    let same_name = Allocation {
        name: Some("web".to_owned()),
        ..wanted()
    };
    let refused = rig
        .service
        .create_record(same_name.into())
        .await
        .unwrap_err();
    assert_eq!(refused.kind, Kind::Conflict);
    let last = settled(&rig, ask(&rig, wanted()).await.uuid).await;
    assert_eq!(last.node_uuid, Some(other));
}

#[tokio::test]
async fn locked_nodes_are_tried_again() {
    let rig = rig().await;
    let node = free_node(&rig, |_| {}).await;
    let minute = Duration::from_secs(60);
    let lease = rig.store.lock_node(node, "other", minute).await.unwrap();
    let asked = ask(&rig, wanted()).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let waits = read(&rig, asked.uuid).await.unwrap();
    assert_eq!(waits.state, AllocationState::Allocating);
    rig.store.unlock(lease).await.unwrap();
    assert_eq!(settled(&rig, asked.uuid).await.node_uuid, Some(node));
}

#[tokio::test]
async fn deleted_with_and_without_a_node() {
    let rig = rig().await;
    let node = free_node(&rig, |_| {}).await;
    let given = settled(&rig, ask(&rig, wanted()).await.uuid).await;
    let failed = settled(&rig, ask(&rig, wanted()).await.uuid).await;
    rig.service
        .destroy_record(failed.clone().into())
        .await
        .unwrap();
    assert_eq!(read(&rig, failed.uuid).await, None);
    let refused = rig.service.destroy_record(failed.into()).await.unwrap_err();
    assert_eq!(refused.kind, Kind::NotFound);
    // In use, the node keeps it.
    rig.service
        .provision(node, super::rig::request(Verb::Active))
        .await
        .unwrap();
    rig.until("active", async || {
        let node = rig.store.node_by_uuid(node).await.unwrap().unwrap();
        node.provision_state == S::Active && node.reservation.is_none()
    })
    .await;
    let refused = rig
        .service
        .destroy_record(given.clone().into())
        .await
        .unwrap_err();
    assert_eq!(refused.kind, Kind::Conflict);
    let mut edited = rig.store.node_by_uuid(node).await.unwrap().unwrap();
    edited.instance_uuid = None;
    let fields = vec!["instance_uuid".to_owned()];
    let refused = rig
        .service
        .update_node(edited, fields, false)
        .await
        .unwrap_err();
    assert_eq!(refused.kind, Kind::Conflict);
    // Torn down, it goes with the instance.
    rig.service
        .provision(node, super::rig::request(Verb::Deleted))
        .await
        .unwrap();
    rig.until("available", async || {
        let node = rig.store.node_by_uuid(node).await.unwrap().unwrap();
        node.provision_state == S::Available && node.reservation.is_none()
    })
    .await;
    assert_eq!(read(&rig, given.uuid).await, None);
    let free = rig.store.node_by_uuid(node).await.unwrap().unwrap();
    assert_eq!((free.instance_uuid, free.allocation_uuid), (None, None));
    // Deleted before it is used, the node is free at once.
    let again = settled(&rig, ask(&rig, wanted()).await.uuid).await;
    rig.service.destroy_record(again.into()).await.unwrap();
    let free = rig.store.node_by_uuid(node).await.unwrap().unwrap();
    assert_eq!((free.instance_uuid, free.allocation_uuid), (None, None));
}

#[tokio::test]
async fn made_for_what_is_there() {
    let rig = rig().await;
    let instance = Uuid::new_v4();
    let node = free_node(&rig, |node| {
        node.provision_state = S::Active;
        node.instance_uuid = Some(instance);
        node.owner = Some("p".to_owned());
    })
    .await;
    let for_node = |uuid: Uuid| Allocation {
        uuid,
        node_uuid: Some(node),
        resource_class: None,
        ..wanted()
    };
    let make =
        async |allocation: Allocation| rig.service.create_record(Record::from(allocation)).await;
    let refused = make(for_node(Uuid::new_v4())).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Conflict, "another instance is there");
    let foreign = Allocation {
        owner: Some("q".to_owned()),
        ..for_node(instance)
    };
    assert_eq!(make(foreign).await.unwrap_err().kind, Kind::Forbidden);
    let unfit = Allocation {
        name: Some("unfit".to_owned()),
        traits: vec!["CUSTOM_GOLD".to_owned()],
        ..for_node(instance)
    };
    let refused = make(unfit.clone()).await.unwrap_err();
    assert!(refused.message.contains("CUSTOM_GOLD"), "{refused}");
    let kept = read(&rig, unfit.uuid).await.unwrap();
    assert_eq!(kept.state, AllocationState::Error);
    rig.service.destroy_record(kept.into()).await.unwrap();
    let made: Allocation = make(for_node(instance)).await.unwrap().try_into().unwrap();
    assert_eq!(made.state, AllocationState::Active);
    assert_eq!(made.resource_class.as_deref(), Some(CLASS));
    assert_eq!(agree(&rig, &[made]).await, 1);
    let idle = free_node(&rig, |_| {}).await;
    let early = Allocation {
        node_uuid: Some(idle),
        ..wanted()
    };
    assert!(make(early).await.unwrap_err().message.contains("available"));
}
