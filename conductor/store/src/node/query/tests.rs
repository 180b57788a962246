//! Every filter, every order, every page.

use std::time::Duration;

use uuid::Uuid;
use wrought_wire::state::ProvisionState;

use super::NodeQuery;
use crate::Error;
use crate::Node;
use crate::SortDir;
use crate::Store;
use crate::testing;

async fn names(store: &Store, query: &NodeQuery) -> Vec<String> {
    let nodes = store.list_nodes(query).await.unwrap();
    let brief = store.list_nodes_brief(query).await.unwrap();
    let uuids: Vec<Uuid> = nodes.iter().map(|node| node.uuid).collect();
    assert_eq!(
        uuids,
        brief.iter().map(|node| node.uuid).collect::<Vec<_>>()
    );
    nodes.into_iter().filter_map(|node| node.name).collect()
}

#[tokio::test]
async fn every_filter_keeps_its_node() {
    let store = testing::store().await;
    let plain = testing::stored(&store, "plain").await;
    let mut node = testing::node("full");
    node.driver = "redfish".to_owned();
    node.instance_uuid = Some(Uuid::new_v4());
    node.instance_name = Some("vm".to_owned());
    node.chassis_uuid = Some(Uuid::new_v4());
    node.provision_state = ProvisionState::Active;
    node.maintenance = true;
    node.retired = true;
    node.resource_class = Some("large".to_owned());
    node.fault = Some("power failure".to_owned());
    node.conductor_group = "rack".to_owned();
    node.owner = Some("p1".to_owned());
    node.lessee = Some("p2".to_owned());
    node.description = Some("Row 5, 100%_new".to_owned());
    node.shard = Some("s1".to_owned());
    store.create_node(&node).await.unwrap();
    let mut child = testing::node("child");
    child.parent_node = Some(plain.uuid.to_string());
    store.create_node(&child).await.unwrap();
    store
        .lock_node(node.uuid, "c", Duration::from_secs(60))
        .await
        .unwrap();

    let text = |text: &str| Some(text.to_owned());
    let base = NodeQuery::default;
    let full = [
        NodeQuery {
            associated: Some(true),
            ..base()
        },
        NodeQuery {
            maintenance: Some(true),
            ..base()
        },
        NodeQuery {
            retired: Some(true),
            ..base()
        },
        NodeQuery {
            provision_state: vec![ProvisionState::Active],
            ..base()
        },
        NodeQuery {
            driver: text("redfish"),
            ..base()
        },
        NodeQuery {
            resource_class: text("large"),
            ..base()
        },
        NodeQuery {
            fault: text("power failure"),
            ..base()
        },
        NodeQuery {
            conductor_group: text("rack"),
            ..base()
        },
        NodeQuery {
            owner: text("p1"),
            ..base()
        },
        NodeQuery {
            lessee: text("p2"),
            ..base()
        },
        NodeQuery {
            project: text("p1"),
            ..base()
        },
        NodeQuery {
            project: text("p2"),
            ..base()
        },
        NodeQuery {
            description_contains: text("rOw"),
            ..base()
        },
        NodeQuery {
            description_contains: text("0%_n"),
            ..base()
        },
        NodeQuery {
            shard: vec!["s0".to_owned(), "s1".to_owned()],
            ..base()
        },
        NodeQuery {
            sharded: Some(true),
            ..base()
        },
        NodeQuery {
            instance_uuid: node.instance_uuid,
            ..base()
        },
        NodeQuery {
            instance_name: text("vm"),
            ..base()
        },
        NodeQuery {
            chassis_uuid: node.chassis_uuid,
            ..base()
        },
        NodeQuery {
            reserved: Some(true),
            ..base()
        },
    ];
    for query in full {
        assert_eq!(names(&store, &query).await, ["full"], "{query:?}");
    }
    let others = [
        NodeQuery {
            associated: Some(false),
            ..base()
        },
        NodeQuery {
            maintenance: Some(false),
            ..base()
        },
        NodeQuery {
            sharded: Some(false),
            ..base()
        },
        NodeQuery {
            reserved: Some(false),
            ..base()
        },
    ];
    for query in others {
        assert_eq!(names(&store, &query).await, ["plain"], "{query:?}");
    }
    assert_eq!(names(&store, &base()).await, ["plain", "full"]);
    let all = NodeQuery {
        include_children: true,
        ..base()
    };
    assert_eq!(names(&store, &all).await, ["plain", "full", "child"]);
    let of_parent = NodeQuery {
        parent_node: child.parent_node.clone(),
        ..base()
    };
    assert_eq!(names(&store, &of_parent).await, ["child"]);
    let none = NodeQuery {
        description_contains: text("%"),
        owner: text("x"),
        ..base()
    };
    assert!(names(&store, &none).await.is_empty());
    assert_eq!(
        store.shards().await.unwrap(),
        [(None, 2), (Some("s1".to_owned()), 1)]
    );
}

#[tokio::test]
async fn pages_cover_the_list_once_in_any_order() {
    let store = testing::store().await;
    let mut made: Vec<Node> = Vec::new();
    for number in 0..23_u64 {
        let mut node = testing::node(&format!("n{:02}", (number * 7) % 23));
        // Few values, some absent: ties and NULLs.
        node.resource_class = (number % 4 != 0).then(|| format!("c{}", number % 3));
        node.maintenance = number % 2 == 0;
        store.create_node(&node).await.unwrap();
        made.push(node);
    }
    for key in [
        None,
        Some("id"),
        Some("name"),
        Some("resource_class"),
        Some("maintenance"),
    ] {
        for sort_dir in [SortDir::Asc, SortDir::Desc] {
            let sort_key = key.map(str::to_owned);
            let whole = NodeQuery {
                sort_key,
                sort_dir,
                ..NodeQuery::default()
            };
            let expected = names(&store, &whole).await;
            assert_eq!(expected.len(), made.len());
            let mut found = Vec::new();
            let mut page = NodeQuery {
                limit: Some(4),
                ..whole
            };
            loop {
                let nodes = store.list_nodes(&page).await.unwrap();
                let Some(last) = nodes.last() else { break };
                page.marker = Some(last.uuid);
                found.extend(nodes.into_iter().filter_map(|node| node.name));
            }
            assert_eq!(found, expected, "{key:?} {sort_dir:?}");
        }
    }
    // Against an order that the database has not made.
    let mut classes: Vec<_> = made.iter().map(|n| n.resource_class.clone()).collect();
    classes.sort();
    let sort_key = Some("resource_class".to_owned());
    let listed = store
        .list_nodes(&NodeQuery {
            sort_key,
            ..NodeQuery::default()
        })
        .await;
    let listed: Vec<_> = listed
        .unwrap()
        .into_iter()
        .map(|n| n.resource_class)
        .collect();
    assert_eq!(listed, classes);
}

#[tokio::test]
async fn bad_keys_and_markers_are_typed() {
    let store = testing::store().await;
    for key in [
        "driver_info",
        "traits",
        "nonsense",
        "uuid; DROP TABLE nodes",
    ] {
        let query = NodeQuery {
            sort_key: Some(key.to_owned()),
            ..NodeQuery::default()
        };
        let error = store.list_nodes(&query).await.unwrap_err();
        assert!(matches!(error, Error::InvalidSortKey { .. }), "{key}");
    }
    let query = NodeQuery {
        marker: Some(Uuid::new_v4()),
        ..NodeQuery::default()
    };
    let error = store.list_nodes(&query).await.unwrap_err();
    assert!(matches!(error, Error::MarkerNotFound { .. }));
}
