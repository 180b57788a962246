//! A conductor with one node and its machine.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;
use tempfile::TempDir;
use uuid::Uuid;
use wrought_rpc::Conductor;
use wrought_rpc::ProvisionRequest;
use wrought_store::HistoryQuery;
use wrought_store::Store;
use wrought_store::node::Node;
use wrought_wire::state::ProvisionState;
use wrought_wire::state::Verb;

use super::machine::Machine;
use crate::CaIdentity;
use crate::Config;
use crate::Service;
use crate::config::Pace;
use crate::drivers::bmc::Bmcs;
use crate::testing;

pub(crate) struct Rig {
    pub(crate) service: Arc<Service>,
    pub(super) store: Store,
    pub(super) machine: Machine,
    pub(super) node: Uuid,
    pub(super) config: Config,
    _folder: TempDir,
}

/// The NIC of the machine.
pub(super) const MAC: &str = "52:54:00:aa:bb:01";

pub(super) fn request(verb: Verb) -> ProvisionRequest {
    ProvisionRequest {
        verb,
        configdrive: None,
        clean_steps: None,
        deploy_steps: None,
        service_steps: None,
        rescue_password: None,
        disable_ramdisk: None,
    }
}

impl Rig {
    pub(super) async fn new() -> Self {
        Self::with("redfish", |_| {}, |_| {}).await
    }

    pub(crate) async fn with(
        driver: &str,
        settings: impl FnOnce(&mut Config),
        shape: impl FnOnce(&mut Node),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in [
            ("vmlinuz", "kernel"),
            ("initramfs", "initramfs"),
            ("esp.img", "esp"),
        ] {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let store = Store::open(&format!("sqlite:{}", folder.path().join("db").display())).await;
        let store = store.unwrap();
        let mut config = Config::new("host-1", folder.path());
        config.public_endpoint = Some("https://192.0.2.1:6385".to_owned());
        config.boot.url = Some("http://192.0.2.1:8088".to_owned());
        config.boot.ramdisk_dir = folder.path().to_owned();
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
            agent_gone: Duration::from_millis(600),
        };
        settings(&mut config);
        let machine = Machine::default();
        let mut node = testing::node(driver);
        if driver == "redfish" {
            node.driver_info
                .insert("redfish_address".to_owned(), json!("https://bmc.test"));
        }
        shape(&mut node);
        machine.belongs_to(node.uuid, MAC);
        let service = start(&store, &config, &machine).await;
        service.create_node(node.clone()).await.unwrap();
        service
            .create_record(testing::port(node.uuid, MAC).into())
            .await
            .unwrap();
        Self {
            service,
            store,
            machine,
            node: node.uuid,
            config,
            _folder: folder,
        }
    }

    /// The conductor's next life.
    pub(super) async fn restart(&mut self) {
        self.service = start(&self.store, &self.config, &self.machine).await;
    }

    pub(crate) async fn node(&self) -> Node {
        self.store.node_by_uuid(self.node).await.unwrap().unwrap()
    }

    pub(super) async fn ask(&self, verb: Verb) {
        self.service
            .provision(self.node, request(verb))
            .await
            .unwrap();
    }

    /// Asks for a manual cleaning with these steps.
    pub(super) async fn clean(&self, steps: Value) {
        let mut clean = request(Verb::Clean);
        clean.clean_steps = steps.as_array().cloned();
        self.service.provision(self.node, clean).await.unwrap();
    }

    /// All that the node's history tells, oldest first.
    pub(super) async fn told(&self) -> Vec<String> {
        let query = HistoryQuery::default();
        let history = self.store.history(self.node, &query).await.unwrap();
        history.into_iter().map(|entry| entry.event).collect()
    }

    /// Waits until the node rests in `state` and nobody holds it.
    pub(super) async fn reaches(&self, state: ProvisionState) -> Node {
        let mut node = self.node().await;
        for _ in 0..1500 {
            if node.provision_state == state && node.reservation.is_none() {
                return node;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            node = self.node().await;
        }
        panic!(
            "{state} not reached: {} {:?} {:#?} {:#?}",
            node.provision_state,
            node.last_error,
            node.driver_internal_info,
            self.machine.logged()
        );
    }

    pub(crate) async fn until(&self, what: &str, mut is: impl AsyncFnMut() -> bool) {
        for _ in 0..1000 {
            if is().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{what} did not come: {:#?}", self.machine.logged());
    }

    /// Tells the node what to deploy.
    pub(super) async fn set_image(&self) {
        let mut node = self.node().await;
        for (key, value) in [
            ("image_source", "http://images.test/debian.qcow2"),
            ("image_checksum", "0123"),
            ("image_disk_format", "qcow2"),
        ] {
            node.instance_info.insert(key.to_owned(), json!(value));
        }
        node.instance_info.insert(
            "configdrive".to_owned(),
            json!({"meta_data": {"name": "n"}}),
        );
        let fields = vec!["instance_info".to_owned()];
        self.service.update_node(node, fields, false).await.unwrap();
    }

    /// From `enroll` to `available`, cleaning included.
    pub(super) async fn make_available(&self) {
        self.ask(Verb::Manage).await;
        self.reaches(ProvisionState::Manageable).await;
        self.ask(Verb::Provide).await;
        self.reaches(ProvisionState::Available).await;
    }

    /// From `manageable` to `available`.
    pub(super) async fn make_available_again(&self) {
        self.ask(Verb::Provide).await;
        self.reaches(ProvisionState::Available).await;
    }

    pub(super) async fn deploy(&self) -> Node {
        self.set_image().await;
        self.ask(Verb::Active).await;
        self.reaches(ProvisionState::Active).await
    }

    pub(super) fn internal(node: &Node, key: &str) -> Value {
        node.driver_internal_info
            .get(key)
            .cloned()
            .unwrap_or_default()
    }
}

async fn start(store: &Store, config: &Config, machine: &Machine) -> Arc<Service> {
    let service = serve(store, config, Arc::new(machine.clone())).await;
    machine.meets(Some(Arc::clone(&service)));
    service
}

/// Starts a conductor.
pub(super) async fn serve(store: &Store, config: &Config, bmcs: Arc<dyn Bmcs>) -> Arc<Service> {
    let ca = CaIdentity {
        ca_pem: "pem".to_owned(),
        ca_sha256_hex: "ab".repeat(32),
    };
    Service::start_with(store.clone(), config.clone(), ca, bmcs)
        .await
        .unwrap()
}
