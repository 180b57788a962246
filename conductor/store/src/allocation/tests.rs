use std::time::Duration;

use uuid::Uuid;
use wrought_wire::state::AllocationState;
use wrought_wire::state::PowerState;
use wrought_wire::state::ProvisionState;

use super::Allocation;
use super::AllocationQuery;
use crate::Error;
use crate::Node;
use crate::row::PageQuery;
use crate::testing;

const TTL: Duration = Duration::from_secs(60);

fn allocation(name: &str) -> Allocation {
    Allocation {
        name: Some(name.to_owned()),
        resource_class: Some("baremetal".to_owned()),
        ..Allocation::default()
    }
}

fn free(name: &str) -> Node {
    let mut node = testing::node(name);
    node.resource_class = Some("baremetal".to_owned());
    node.provision_state = ProvisionState::Available;
    node.power_state = Some(PowerState::Off);
    node
}

#[tokio::test]
async fn a_node_has_at_most_one_and_loses_it_when_saved_without() {
    let store = testing::store().await;
    let wanted = allocation("one");
    store.insert(&wanted).await.unwrap();
    assert_eq!(store.row(wanted.uuid).await.unwrap(), Some(wanted.clone()));
    let mut node = free("a");
    store.create_node(&node).await.unwrap();
    let lease = store.lock_node(node.uuid, "host-1", TTL).await.unwrap();
    node.instance_uuid = Some(wanted.uuid);
    assert!(
        store
            .allocate(&lease, &mut node, wanted.uuid, &[])
            .await
            .unwrap()
    );
    let shown = store.node_by_uuid(node.uuid).await.unwrap().unwrap();
    assert_eq!(shown.allocation_uuid, Some(wanted.uuid));
    let got: Allocation = store.row_by_ident("one").await.unwrap().unwrap();
    assert_eq!(got.node_uuid, Some(node.uuid));
    assert_eq!(got.state, AllocationState::Active);
    // Once only.
    assert!(
        !store
            .allocate(&lease, &mut node, wanted.uuid, &[])
            .await
            .unwrap()
    );
    assert!(!store.remove_waiting_allocation(wanted.uuid).await.unwrap());
    store
        .fail_allocation(wanted.uuid, "too late")
        .await
        .unwrap();
    let of_node = AllocationQuery {
        node_uuid: Some(node.uuid),
        ..AllocationQuery::default()
    };
    let found = store.rows(&of_node, &PageQuery::default()).await.unwrap();
    assert_eq!(found, [got]);
    // Saved with it, it stays; saved without, it goes.
    store.save_node(&lease, &mut node).await.unwrap();
    assert!(
        store
            .row::<Allocation>(wanted.uuid)
            .await
            .unwrap()
            .is_some()
    );
    node.allocation_uuid = None;
    store.save_node(&lease, &mut node).await.unwrap();
    assert!(
        store
            .row::<Allocation>(wanted.uuid)
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn it_goes_with_its_node_and_not_without_the_lease() {
    let store = testing::store().await;
    let wanted = allocation("one");
    store.insert(&wanted).await.unwrap();
    let mut node = free("a");
    store.create_node(&node).await.unwrap();
    let old = store.lock_node(node.uuid, "host-1", TTL).await.unwrap();
    store.unlock(old.clone()).await.unwrap();
    let error = store
        .allocate(&old, &mut node, wanted.uuid, &[])
        .await
        .unwrap_err();
    assert!(matches!(error, Error::LeaseLost { .. }), "{error}");
    let kept: Allocation = store.row(wanted.uuid).await.unwrap().unwrap();
    assert_eq!(kept.state, AllocationState::Allocating);
    let lease = store.lock_node(node.uuid, "host-1", TTL).await.unwrap();
    assert!(
        store
            .allocate(&lease, &mut node, wanted.uuid, &[])
            .await
            .unwrap()
    );
    node.allocation_uuid = None;
    assert!(store.save_node(&old, &mut node).await.is_err());
    assert!(
        store
            .row::<Allocation>(wanted.uuid)
            .await
            .unwrap()
            .is_some()
    );
    store.destroy_node(&lease).await.unwrap();
    assert!(
        store
            .row::<Allocation>(wanted.uuid)
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn candidates_are_free_nodes() {
    let store = testing::store().await;
    let mut good = free("good");
    good.owner = Some("p".to_owned());
    good.traits = vec!["CUSTOM_A".to_owned()];
    store.create_node(&good).await.unwrap();
    type Change = (&'static str, fn(&mut Node));
    let changes: [Change; 5] = [
        ("class", |node| node.resource_class = None),
        ("state", |node| {
            node.provision_state = ProvisionState::Active
        }),
        ("instance", |node| node.instance_uuid = Some(Uuid::new_v4())),
        ("maintenance", |node| node.maintenance = true),
        ("power", |node| node.power_state = None),
    ];
    for (name, change) in changes {
        let mut node = free(name);
        change(&mut node);
        store.create_node(&node).await.unwrap();
    }
    let mut wanted = allocation("one");
    let found = store.allocation_candidates(&wanted).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].uuid, &found[0].traits), (good.uuid, &good.traits));
    wanted.owner = Some("other".to_owned());
    assert!(
        store
            .allocation_candidates(&wanted)
            .await
            .unwrap()
            .is_empty()
    );
    wanted.owner = Some("p".to_owned());
    wanted.candidate_nodes = vec![Uuid::new_v4()];
    assert!(
        store
            .allocation_candidates(&wanted)
            .await
            .unwrap()
            .is_empty()
    );
    wanted.candidate_nodes.push(good.uuid);
    assert_eq!(store.allocation_candidates(&wanted).await.unwrap(), found);
    wanted.resource_class = Some("other".to_owned());
    assert!(
        store
            .allocation_candidates(&wanted)
            .await
            .unwrap()
            .is_empty()
    );
}
