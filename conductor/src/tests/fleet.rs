//! Several conductors on one database. In memory they share its one
//! connection; with a PostgreSQL server each has connections of its own.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use uuid::Uuid;
use wrought_rpc::Conductor;
use wrought_store::Store;
use wrought_store::node::Node;
use wrought_wire::state::ProvisionState;
use wrought_wire::state::Verb;

use super::machine::Machine;
use super::rig;
use super::rig::request;
use crate::Config;
use crate::Service;
use crate::config::Pace;
use crate::testing;

/// Tells a second run of these tests where a PostgreSQL server has its socket.
const SERVER: &str = "WROUGHT_STORE_TEST_POSTGRES";

pub(super) struct Fleet {
    pub(super) store: Store,
    url: Option<String>,
    folder: TempDir,
}

/// A node with its machine.
pub(super) struct Pair {
    pub(super) uuid: Uuid,
    pub(super) machine: Machine,
}

impl Fleet {
    pub(super) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in [
            ("vmlinuz", "kernel"),
            ("initramfs", "initramfs"),
            ("esp.img", "esp"),
        ] {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let url = std::env::var(SERVER).ok().map(|server| {
            let name = format!("c{}", Uuid::new_v4().simple());
            let made = Command::new("createdb")
                .args(["-h", &server, "-U", "wrought", &name])
                .status()
                .unwrap();
            assert!(made.success(), "createdb: {made}");
            format!("postgres://wrought@localhost/{name}?host={server}")
        });
        let store = match &url {
            Some(url) => Store::open_shared(url).await.unwrap(),
            None => Store::open("sqlite::memory:").await.unwrap(),
        };
        Self { store, url, folder }
    }

    /// A database handle of a conductor's own.
    async fn handle(&self) -> Store {
        match &self.url {
            Some(url) => Store::open_shared(url).await.unwrap(),
            None => self.store.clone(),
        }
    }

    pub(super) fn config(&self, host: &str) -> Config {
        let mut config = Config::new(host, self.folder.path());
        config.alone = false;
        config.public_endpoint = Some("https://192.0.2.1:6385".to_owned());
        config.boot.url = Some("http://192.0.2.1:8088".to_owned());
        config.boot.ramdisk_dir = self.folder.path().to_owned();
        config.conductor.keepalive_interval = 1;
        config.conductor.dead_after = 4;
        config.conductor.check_interval = 1;
        config.conductor.graceful_shutdown_timeout = 20;
        let fast = Duration::from_millis(30);
        config.pace = Pace {
            agent_poll: fast,
            power_poll: fast,
            lock_wait: Duration::from_secs(5),
            lease: Duration::from_secs(3),
            renew: Duration::from_millis(300),
            agent_power_off: Duration::from_secs(5),
            boot_patience: Duration::from_millis(500),
            restart_patience: Duration::from_millis(800),
            agent_gone: Duration::from_secs(20),
        };
        config
    }

    /// Starts a conductor that knows the BMCs of these machines.
    pub(super) async fn conductor(&self, host: &str, machines: &[&Machine]) -> Arc<Service> {
        self.conductor_with(self.config(host), machines).await
    }

    pub(super) async fn conductor_with(
        &self,
        config: Config,
        machines: &[&Machine],
    ) -> Arc<Service> {
        let machines = machines.iter().map(|one| (*one).clone()).collect();
        let store = self.handle().await;
        rig::serve(&store, &config, Arc::new(Machines(machines))).await
    }

    /// A node of the group with its machine.
    pub(super) async fn pair(&self, group: &str, number: u8) -> Pair {
        self.pair_as(Uuid::new_v4(), group, number).await
    }

    /// The same with this UUID.
    pub(super) async fn pair_as(&self, uuid: Uuid, group: &str, number: u8) -> Pair {
        let machine = Machine::default();
        let mac = format!("52:54:00:aa:cc:{number:02x}");
        let mut node = testing::node("redfish");
        node.uuid = uuid;
        node.conductor_group = group.to_owned();
        node.driver_info.insert(
            "redfish_address".to_owned(),
            format!("https://bmc-{number}.test").into(),
        );
        machine.belongs_to(node.uuid, &mac);
        self.store.create_node(&node).await.unwrap();
        let port = testing::port(node.uuid, &mac);
        self.store.insert(&port).await.unwrap();
        Pair {
            uuid: node.uuid,
            machine,
        }
    }

    pub(super) async fn node(&self, uuid: Uuid) -> Node {
        self.store.node_by_uuid(uuid).await.unwrap().unwrap()
    }

    /// Waits until the node rests in `state` and nobody holds it.
    pub(super) async fn reaches(&self, pair: &Pair, state: ProvisionState) -> Node {
        let mut node = self.node(pair.uuid).await;
        for _ in 0..3000 {
            if node.provision_state == state && node.reservation.is_none() {
                return node;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            node = self.node(pair.uuid).await;
        }
        panic!(
            "{state} not reached: {} by {:?}, {:?} {:#?} {:#?}",
            node.provision_state,
            node.reservation,
            node.last_error,
            node.driver_internal_info,
            pair.machine.logged()
        );
    }

    /// Brings a node to `available` by way of its owner, and says what is to be
    /// deployed.
    pub(super) async fn make_available(&self, owner: &Arc<Service>, pair: &Pair) {
        for (verb, state) in [
            (Verb::Manage, ProvisionState::Manageable),
            (Verb::Provide, ProvisionState::Available),
        ] {
            owner.provision(pair.uuid, request(verb)).await.unwrap();
            self.reaches(pair, state).await;
        }
        self.set_image(owner, pair).await;
    }

    /// Says what is to be deployed.
    pub(super) async fn set_image(&self, owner: &Arc<Service>, pair: &Pair) {
        let mut node = self.node(pair.uuid).await;
        for (key, value) in [
            ("image_source", "http://images.test/debian.qcow2"),
            ("image_checksum", "0123"),
            ("image_disk_format", "qcow2"),
        ] {
            node.instance_info.insert(key.to_owned(), value.into());
        }
        let fields = vec!["instance_info".to_owned()];
        owner.update_node(node, fields, false).await.unwrap();
    }
}

/// Waits until something holds.
pub(super) async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    for _ in 0..3000 {
        if is().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not come");
}

/// Finds the BMC of a node among several machines.
#[derive(Debug)]
pub(super) struct Machines(Vec<Machine>);

impl crate::drivers::bmc::Bmcs for Machines {
    fn of(&self, node: &Node) -> Result<Arc<dyn crate::drivers::bmc::Bmc>, crate::Error> {
        let own = self.0.iter().find(|one| one.is_of(node.uuid));
        match own {
            Some(machine) => Ok(Arc::new(machine.clone())),
            None => Err(crate::Error::Invalid("no such BMC".to_owned())),
        }
    }
}
