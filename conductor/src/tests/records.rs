//! Rules of the records beside nodes, under their node's lock.

use std::time::Duration;

use serde_json::json;
use wrought_rpc::Conductor;
use wrought_rpc::Kind;
use wrought_rpc::Record;
use wrought_store::Chassis;
use wrought_store::DeployTemplate;
use wrought_store::Portgroup;
use wrought_store::VolumeTarget;
use wrought_store::deploy_template::TemplateStep;
use wrought_store::port::Port;
use wrought_wire::state::PowerState;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::MAC;
use super::rig::Rig;
use super::rig::request;

impl Rig {
    async fn make<R>(&self, record: R) -> R
    where
        R: Into<Record> + TryFrom<Record, Error = Record>,
    {
        let made = self.service.create_record(record.into()).await.unwrap();
        R::try_from(made).unwrap()
    }

    async fn change<R>(&self, record: &R) -> Result<R, Kind>
    where
        R: Clone + Into<Record> + TryFrom<Record, Error = Record>,
    {
        match self.service.update_record(record.clone().into()).await {
            Ok(changed) => Ok(R::try_from(changed).unwrap()),
            Err(refused) => Err(refused.kind),
        }
    }

    async fn remove<R: Clone + Into<Record>>(&self, record: &R) -> Result<(), Kind> {
        let gone = self.service.destroy_record(record.clone().into()).await;
        gone.map_err(|refused| refused.kind)
    }

    async fn port(&self) -> Port {
        let ports = crate::validate::ports(&self.service, self.node).await;
        ports.unwrap().into_iter().next().unwrap()
    }
}

#[tokio::test]
async fn a_chassis_with_nodes_stays() {
    let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
    let chassis = rig.make(Chassis::default()).await;
    let mut node = crate::testing::node("fake-hardware");
    node.chassis_uuid = Some(chassis.uuid);
    rig.store.create_node(&node).await.unwrap();
    assert_eq!(rig.remove(&chassis).await, Err(Kind::InvalidParameter));
    rig.service.destroy_node(node.uuid).await.unwrap();
    rig.remove(&chassis).await.unwrap();
    assert_eq!(rig.remove(&chassis).await, Err(Kind::NotFound));
}

#[tokio::test]
async fn volumes_change_while_the_machine_is_off() {
    let rig = Rig::with(
        "fake-hardware",
        |config| config.pace.lock_wait = Duration::from_millis(200),
        |node| node.power_state = Some(PowerState::On),
    )
    .await;
    let mut target = rig
        .make(VolumeTarget {
            node_uuid: rig.node,
            ..VolumeTarget::default()
        })
        .await;
    target.boot_index = 1;
    assert_eq!(rig.change(&target).await, Err(Kind::InvalidParameter));
    let lease = rig.store.lock_node(rig.node, "x", Duration::from_secs(60));
    let lease = lease.await.unwrap();
    let mut node = rig.node().await;
    node.power_state = Some(PowerState::Off);
    rig.store.save_node(&lease, &mut node).await.unwrap();
    assert_eq!(rig.change(&target).await, Err(Kind::NodeLocked));
    rig.store.unlock(lease).await.unwrap();
    let changed = rig.change(&target).await.unwrap();
    assert_eq!(rig.change(&target).await, Err(Kind::Stale));
    rig.remove(&changed).await.unwrap();
}

#[tokio::test]
async fn ports_fit_their_portgroup() {
    let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
    let group = Portgroup {
        node_uuid: rig.node,
        ..Portgroup::default()
    };
    let group = rig.make(group).await;
    let mut port = rig.port().await;
    assert_eq!(port.address, MAC);
    port.portgroup_uuid = Some(group.uuid);
    rig.change(&port).await.unwrap();
    assert_eq!(rig.remove(&group).await, Err(Kind::InvalidParameter));
    let stray = crate::testing::node("fake-hardware");
    rig.store.create_node(&stray).await.unwrap();
    let mut moved = group.clone();
    moved.node_uuid = stray.uuid;
    assert_eq!(rig.change(&moved).await, Err(Kind::InvalidParameter));
    let mut other = Port::new(rig.node, "52:54:00:aa:bb:02");
    other.portgroup_uuid = Some(group.uuid);
    other.physical_network = Some("elsewhere".to_owned());
    let refused = rig.service.create_record(other.into()).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Conflict);
    let mut foreign = Port::new(stray.uuid, "52:54:00:aa:bb:03");
    foreign.portgroup_uuid = Some(group.uuid);
    let refused = rig.service.create_record(foreign.into()).await.unwrap_err();
    assert_eq!(refused.kind, Kind::InvalidParameter);
    let mut port = rig.port().await;
    port.portgroup_uuid = None;
    port.node_uuid = stray.uuid;
    let port = rig.change(&port).await.unwrap();
    assert_eq!(port.node_uuid, stray.uuid);
    let moved = rig.change(&moved).await.unwrap();
    rig.remove(&moved).await.unwrap();
}

#[tokio::test]
async fn templates_give_a_deployment_their_steps() {
    let rig = Rig::with(
        "fake-hardware",
        |_| {},
        |node| {
            node.traits = vec!["CUSTOM_T".to_owned()];
            let traits = json!(["CUSTOM_T", "CUSTOM_OTHER"]);
            node.instance_info.insert("traits".to_owned(), traits);
        },
    )
    .await;
    let off = TemplateStep {
        interface: "deploy".to_owned(),
        step: "deploy".to_owned(),
        args: serde_json::Map::new(),
        priority: 50,
    };
    let template = DeployTemplate {
        name: "CUSTOM_T".to_owned(),
        steps: vec![off],
        ..DeployTemplate::default()
    };
    let template = rig.make(template).await;
    rig.make_available().await;
    let deploy = async || rig.service.provision(rig.node, request(Verb::Active)).await;
    // One of the instance's traits is not the node's.
    let refused = deploy().await.unwrap_err();
    assert!(refused.message.contains("CUSTOM_OTHER"), "{refused}");
    let mut node = rig.node().await;
    let traits = json!(["CUSTOM_T"]);
    node.instance_info.insert("traits".to_owned(), traits);
    let fields = vec!["instance_info".to_owned()];
    rig.service.update_node(node, fields, false).await.unwrap();
    // The template's step cannot be: so it came into the list.
    let refused = deploy().await.unwrap_err();
    assert!(refused.message.contains("deploy.deploy"), "{refused}");
    rig.remove(&template).await.unwrap();
    deploy().await.unwrap();
    rig.reaches(S::Active).await;
}
