//! A conductor that stores what it is given and otherwise only says yes, with
//! the few refusals that tests need.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_rpc::BootDeviceSetting;
use wrought_rpc::Caller;
use wrought_rpc::Conductor;
use wrought_rpc::Driver;
use wrought_rpc::Error;
use wrought_rpc::Inspected;
use wrought_rpc::Kind;
use wrought_rpc::ProvisionRequest;
use wrought_rpc::Record;
use wrought_rpc::Result;
use wrought_rpc::Validation;
use wrought_store::Inventory;
use wrought_store::Lease;
use wrought_store::LockError;
use wrought_store::Node;
use wrought_store::Row;
use wrought_store::Store;
use wrought_store::node::INTERFACE_KINDS;
use wrought_wire::heartbeat::Heartbeat;
use wrought_wire::state::BootDevice;
use wrought_wire::state::PowerTarget;
use wrought_wire::state::ProvisionState;
use wrought_wire::state::Verb;

/// Its host name.
const HOST: &str = "conductor-1";

/// The conductor.
pub(crate) struct Fake {
    pub(super) store: Store,
    asked: Mutex<Option<ProvisionRequest>>,
    caller: Mutex<Caller>,
}

pub(super) fn from_store(error: wrought_store::Error) -> Error {
    use wrought_store::Error as E;
    match error {
        E::DuplicateName { .. }
        | E::DuplicateUuid { .. }
        | E::DuplicateAddress { .. }
        | E::Duplicate { .. } => Error::new(Kind::Conflict, error.to_string()),
        E::Changed { .. } => Error::new(Kind::Stale, error.to_string()),
        E::NotFound { .. } | E::InUse { .. } => {
            Error::new(Kind::InvalidParameter, error.to_string())
        }
        other => Error::new(Kind::Internal, other.to_string()),
    }
}

/// What a lookup answers.
fn config() -> Map<String, Value> {
    let config =
        json!({"heartbeat_timeout": 300, "agent_token": "fresh", "agent_token_required": true});
    config.as_object().cloned().unwrap_or_default()
}

macro_rules! each {
    ($record:expr, $one:ident => $done:expr) => {
        match $record {
            Record::Allocation($one) => $done,
            Record::Chassis($one) => $done,
            Record::DeployTemplate($one) => $done,
            Record::InspectionRule($one) => $done,
            Record::Port($one) => $done,
            Record::Portgroup($one) => $done,
            Record::Runbook($one) => $done,
            Record::VolumeConnector($one) => $done,
            Record::VolumeTarget($one) => $done,
        }
    };
}

impl Fake {
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store,
            asked: Mutex::default(),
            caller: Mutex::default(),
        }
    }

    /// The newest provision request.
    pub(crate) fn last_request(&self) -> Option<ProvisionRequest> {
        self.asked.lock().unwrap().clone()
    }

    /// Who made it.
    pub(crate) fn last_caller(&self) -> Caller {
        self.caller.lock().unwrap().clone()
    }

    pub(super) async fn lock(&self, node: Uuid) -> Result<Lease> {
        self.store
            .lock_node(node, HOST, Duration::from_secs(60))
            .await
            .map_err(|error| {
                let kind = match &error {
                    LockError::Held { .. } => Kind::NodeLocked,
                    _ => Kind::Internal,
                };
                Error::new(kind, error.to_string())
            })
    }
}

#[async_trait]
impl Conductor for Fake {
    fn drivers(&self) -> Vec<Driver> {
        let driver = |name: &str| Driver {
            name: name.to_owned(),
            hosts: vec![HOST.to_owned()],
            defaults: INTERFACE_KINDS
                .iter()
                .map(|kind| ((*kind).to_owned(), "fake".to_owned()))
                .collect(),
            enabled: INTERFACE_KINDS
                .iter()
                .map(|kind| ((*kind).to_owned(), vec!["fake".to_owned()]))
                .collect(),
            properties: BTreeMap::from([("foo".to_owned(), "Nothing.".to_owned())]),
        };
        vec![driver("fake-hardware"), driver("redfish")]
    }

    fn owner(&self, _: &str, driver: &str, _: Uuid) -> Option<String> {
        let known = self.drivers().iter().any(|known| known.name == driver);
        known.then(|| HOST.to_owned())
    }

    async fn create_node(&self, mut node: Node) -> Result<Node> {
        if !self
            .drivers()
            .iter()
            .any(|driver| driver.name == node.driver)
        {
            return Err(Error::new(
                Kind::InvalidParameter,
                format!("no driver {}", node.driver),
            ));
        }
        if node.interfaces.values().any(|name| name == "ansible") {
            return Err(Error::new(Kind::InvalidParameter, "no interface ansible"));
        }
        for kind in INTERFACE_KINDS {
            node.interfaces
                .entry(kind.to_owned())
                .or_insert_with(|| "fake".to_owned());
        }
        self.store.create_node(&node).await.map_err(from_store)?;
        Ok(node)
    }

    async fn update_node(&self, mut node: Node, _: Vec<String>, _: bool) -> Result<Node> {
        let lease = self.lock(node.uuid).await?;
        let stored = self.store.node_by_uuid(node.uuid).await;
        let stored = stored.map_err(from_store)?.map(|node| node.updated_at);
        let saved = if stored == Some(node.updated_at) {
            let saved = self.store.save_node(&lease, &mut node).await;
            saved.map_err(from_store)
        } else {
            Err(Error::new(Kind::Stale, "changed in the meantime"))
        };
        self.store.unlock(lease).await.map_err(from_store)?;
        saved.map(|()| node)
    }

    async fn destroy_node(&self, node: Uuid) -> Result<()> {
        let lease = self.lock(node).await?;
        let found = self.store.node_by_uuid(node).await.map_err(from_store)?;
        if found.is_some_and(|node| node.instance_uuid.is_some()) {
            return Err(Error::new(Kind::Conflict, "it has an instance"));
        }
        self.store.destroy_node(&lease).await.map_err(from_store)
    }

    async fn set_maintenance(&self, _: Uuid, _: bool, _: Option<String>) -> Result<()> {
        Ok(())
    }

    async fn change_power(&self, node: Uuid, _: PowerTarget, _: Option<u32>) -> Result<()> {
        let lease = self.lock(node).await?;
        self.store.unlock(lease).await.map_err(from_store)
    }

    async fn provision(&self, node: Uuid, request: ProvisionRequest) -> Result<()> {
        *self.asked.lock().unwrap() = Some(request.clone());
        *self.caller.lock().unwrap() = Caller::current();
        let node = self.store.node_by_uuid(node).await.map_err(from_store)?;
        let state = node.map(|node| node.provision_state);
        match (state, request.verb, request.configdrive) {
            (Some(ProvisionState::Enroll), Verb::Active, None) => {
                Err(Error::new(Kind::InvalidState, "not in this state"))
            }
            _ => Ok(()),
        }
    }

    async fn validate(&self, _: Uuid) -> Result<BTreeMap<String, Validation>> {
        let good = Validation {
            result: Some(true),
            reason: None,
        };
        Ok(INTERFACE_KINDS
            .iter()
            .map(|kind| ((*kind).to_owned(), good.clone()))
            .collect())
    }

    async fn set_boot_device(&self, _: Uuid, device: BootDevice, _: bool) -> Result<()> {
        match device {
            BootDevice::Floppy => Err(Error::new(Kind::InvalidParameter, "no floppy")),
            _ => Ok(()),
        }
    }

    async fn boot_device(&self, _: Uuid) -> Result<BootDeviceSetting> {
        Ok(BootDeviceSetting {
            boot_device: Some(BootDevice::Pxe),
            persistent: Some(false),
        })
    }

    async fn supported_boot_devices(&self, _: Uuid) -> Result<Vec<BootDevice>> {
        Ok(vec![BootDevice::Pxe])
    }

    async fn heartbeat(&self, _: Uuid, heartbeat: Heartbeat) -> Result<()> {
        match heartbeat
            .agent_token
            .is_some_and(|token| token.expose() == "bad")
        {
            true => Err(Error::new(Kind::InvalidParameter, "wrong token")),
            false => Ok(()),
        }
    }

    async fn lookup(&self, node: Uuid) -> Result<Map<String, Value>> {
        let read = self.store.node_by_uuid(node).await.map_err(from_store)?;
        match read.is_some_and(|node| node.provision_state.allows_lookup()) {
            true => Ok(config()),
            false => Err(Error::new(Kind::NotFound, "Resource could not be found.")),
        }
    }

    async fn metrics(&self) -> Result<String> {
        Ok("wrought_workers 64\n".to_owned())
    }

    async fn continue_inspection(&self, node: Option<Uuid>, found: Inventory) -> Result<Inspected> {
        let uuid = match node {
            Some(uuid) => uuid,
            None => super::A
                .parse()
                .map_err(|_| Error::new(Kind::Internal, "no node A"))?,
        };
        let read = self.store.node_by_uuid(uuid).await.map_err(from_store)?;
        let node = read.ok_or_else(|| Error::new(Kind::NotFound, "no such node"))?;
        let stored = self.store.save_inventory(uuid, &found).await;
        stored.map_err(from_store)?;
        let config = config();
        Ok(Inspected { node, config })
    }

    async fn create_record(&self, record: Record) -> Result<Record> {
        each!(&record, one => self.store.insert(one).await.map_err(from_store)?);
        Ok(record)
    }

    async fn update_record(&self, mut record: Record) -> Result<Record> {
        each!(&mut record, one => self.store.save(one).await.map_err(from_store)?);
        Ok(record)
    }

    async fn destroy_record(&self, record: Record) -> Result<()> {
        each!(record, one => remove(&self.store, one).await)
    }
}

async fn remove<R: Row>(store: &Store, one: R) -> Result<()> {
    store.remove::<R>(one.uuid()).await.map_err(from_store)
}
