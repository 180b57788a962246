//! Every table by the same measure.

use serde_json::json;
use uuid::Uuid;

use super::Filter;
use super::PageQuery;
use super::Row;
use crate::Chassis;
use crate::DeployTemplate;
use crate::Error;
use crate::Portgroup;
use crate::PortgroupQuery;
use crate::Runbook;
use crate::Store;
use crate::VolumeConnector;
use crate::VolumeTarget;
use crate::chassis::ChassisQuery;
use crate::deploy_template::DeployTemplateQuery;
use crate::deploy_template::TemplateStep;
use crate::runbook::RunbookQuery;
use crate::testing;
use crate::volume::ConnectorQuery;
use crate::volume::TargetQuery;

/// A row comes back as it was stored, one version replaces another, and
/// only the newest can be replaced.
async fn lives<F>(store: &Store, row: F::Row, filter: F)
where
    F: Filter,
    F::Row: PartialEq + std::fmt::Debug,
{
    store.insert(&row).await.unwrap();
    let uuid = row.uuid();
    let mut read: F::Row = store.row(uuid).await.unwrap().unwrap();
    assert_eq!(read, row);
    let again = store.insert(&row).await.unwrap_err();
    assert!(matches!(again, Error::DuplicateUuid { .. }), "{again}");
    let mut old = read.clone();
    store.save(&mut read).await.unwrap();
    assert!(read.updated_at().is_some());
    let stale = store.save(&mut old).await.unwrap_err();
    assert!(matches!(stale, Error::Changed { .. }), "{stale}");
    let found = store.rows(&filter, &PageQuery::default()).await.unwrap();
    assert_eq!(found, [read.clone()]);
    for key in F::Row::table().sortable {
        let page = PageQuery {
            sort_key: Some((*key).to_owned()),
            marker: Some(uuid),
            ..PageQuery::default()
        };
        assert_eq!(store.rows(&filter, &page).await.unwrap(), [], "{key}");
    }
    store.remove::<F::Row>(uuid).await.unwrap();
    let gone = store.save(&mut read).await.unwrap_err();
    assert!(matches!(gone, Error::NotFound { .. }), "{gone}");
    let gone = store.remove::<F::Row>(uuid).await.unwrap_err();
    assert!(matches!(gone, Error::NotFound { .. }), "{gone}");
}

#[tokio::test]
async fn every_table_lives() {
    let store = testing::store().await;
    let node_uuid = testing::stored(&store, "a").await.uuid;
    let extra = json!({"k": [1, null]}).as_object().cloned().unwrap();
    let chassis = Chassis {
        description: Some("rack".to_owned()),
        extra: extra.clone(),
        ..Chassis::default()
    };
    lives(&store, chassis, ChassisQuery).await;
    let group = Portgroup {
        node_uuid,
        name: Some("bond0".to_owned()),
        address: Some("52:54:00:00:00:0a".to_owned()),
        ..Portgroup::default()
    };
    let query = PortgroupQuery {
        node_uuid: Some(node_uuid),
        address: Some("52:54:00:00:00:0A".to_owned()),
        ..PortgroupQuery::default()
    };
    lives(&store, group, query).await;
    let template = DeployTemplate {
        name: "CUSTOM_T".to_owned(),
        steps: vec![TemplateStep {
            interface: "bios".to_owned(),
            step: "s".to_owned(),
            args: extra.clone(),
            priority: 7,
        }],
        ..DeployTemplate::default()
    };
    let names = vec!["CUSTOM_T".to_owned(), "CUSTOM_U".to_owned()];
    lives(&store, template, DeployTemplateQuery { names }).await;
    let book = Runbook {
        name: "CUSTOM_R".to_owned(),
        traits: vec!["CUSTOM_A".to_owned()],
        ..Runbook::default()
    };
    lives(&store, book, RunbookQuery).await;
    let node = Some(node_uuid);
    let connector = VolumeConnector {
        node_uuid,
        kind: "iqn".to_owned(),
        connector_id: "iqn.x".to_owned(),
        ..VolumeConnector::default()
    };
    lives(&store, connector, ConnectorQuery { node_uuid: node }).await;
    let target = VolumeTarget {
        node_uuid,
        volume_type: "iscsi".to_owned(),
        boot_index: 3,
        ..VolumeTarget::default()
    };
    lives(&store, target, TargetQuery { node_uuid: node }).await;
}

#[tokio::test]
async fn what_must_be_unique_and_what_must_exist() {
    let store = testing::store().await;
    let node_uuid = testing::stored(&store, "a").await.uuid;
    let target = || VolumeTarget {
        node_uuid,
        boot_index: 1,
        ..VolumeTarget::default()
    };
    store.insert(&target()).await.unwrap();
    let error = store.insert(&target()).await.unwrap_err();
    assert!(matches!(error, Error::Duplicate { .. }), "{error}");
    let group = || Portgroup {
        node_uuid,
        ..Portgroup::default()
    };
    let (first, mut second) = (group(), group());
    store.insert(&first).await.unwrap();
    store.insert(&second).await.unwrap();
    let mut named = first.clone();
    named.name = Some("bond0".to_owned());
    store.save(&mut named).await.unwrap();
    second.name = Some("bond0".to_owned());
    let error = store.save(&mut second).await.unwrap_err();
    assert!(matches!(error, Error::DuplicateName { .. }), "{error}");
    let stray = Portgroup::default();
    let error = store.insert(&stray).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { what: "node", .. }));

    let mut port = testing::port(node_uuid, "52:54:00:00:00:01");
    port.portgroup_uuid = Some(Uuid::new_v4());
    let error = store.insert(&port).await.unwrap_err();
    let what = "portgroup";
    assert!(matches!(error, Error::NotFound { what: w, .. } if w == what));
    port.portgroup_uuid = Some(first.uuid);
    store.insert(&port).await.unwrap();
    let error = store.remove::<Portgroup>(first.uuid).await.unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    let lease = store.lock_node(node_uuid, "x", std::time::Duration::from_secs(60));
    store.destroy_node(&lease.await.unwrap()).await.unwrap();
    let left = store.row::<Portgroup>(first.uuid).await.unwrap();
    assert_eq!(left, None, "it goes with its node, ports included");
}
