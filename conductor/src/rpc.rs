//! The conductor as the API sees it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_rpc::BootDeviceSetting;
use wrought_rpc::Conductor;
use wrought_rpc::Driver;
use wrought_rpc::Inspected;
use wrought_rpc::ProvisionRequest;
use wrought_rpc::Record;
use wrought_rpc::Result;
use wrought_rpc::Validation;
use wrought_store::inventory::Inventory;
use wrought_store::node::Node;
use wrought_wire::heartbeat::Heartbeat;
use wrought_wire::state::BootDevice;
use wrought_wire::state::PowerTarget;

use crate::drivers;
use crate::drivers::boot_mode;
use crate::error::Error;
use crate::heartbeat;
use crate::inspection;
use crate::nodes;
use crate::periodic::meters;
use crate::provision;
use crate::records;
use crate::service::Service;
use crate::task::Task;
use crate::task::store;
use crate::validate;

impl Service {
    /// The node with that UUID, as it is stored; [`Error::NotMine`] for
    /// another conductor's.
    pub(crate) async fn known(&self, uuid: Uuid) -> std::result::Result<Node, Error> {
        let read = self
            .store
            .node_by_uuid(uuid)
            .await
            .map_err(store("read a node"))?;
        let node = read.ok_or_else(|| Error::NodeNotFound(uuid.to_string()))?;
        self.check_mine(&node)?;
        Ok(node)
    }

    async fn set_device(
        &self,
        task: &Task,
        device: BootDevice,
        persistent: bool,
    ) -> std::result::Result<(), Error> {
        let management = drivers::management(&task.node)?;
        management.validate(self, &task.node)?;
        let offered = management.boot_devices(self, &task.node).await?;
        if !offered.contains(&device) {
            return Err(Error::Invalid(format!(
                "Invalid boot device {device} specified."
            )));
        }
        let mode = boot_mode::of(&task.node, &self.config);
        task.confirm().await?;
        management
            .set_boot_device(self, &task.node, device, persistent, Some(mode))
            .await
    }
}

#[async_trait]
impl Conductor for Service {
    async fn metrics(&self) -> Result<String> {
        Ok(meters::render(self).await)
    }

    fn drivers(&self) -> Vec<Driver> {
        let types = self.catalog.types().iter();
        types
            .map(|t| t.describe(vec![self.config.host.clone()]))
            .collect()
    }

    fn owner(&self, group: &str, driver: &str, node: Uuid) -> Option<String> {
        if self.membership.is_alone() {
            let known = self.catalog.find(driver);
            return known.map(|_| self.config.host.clone());
        }
        self.membership.owner(group, driver, node)
    }

    async fn create_node(&self, node: Node) -> Result<Node> {
        self.check_mine(&node)?;
        Ok(nodes::create(self, node).await?)
    }

    async fn update_node(
        &self,
        node: Node,
        fields: Vec<String>,
        reset_interfaces: bool,
    ) -> Result<Node> {
        Ok(nodes::update(&self.own()?, node, fields, reset_interfaces).await?)
    }

    async fn destroy_node(&self, node: Uuid) -> Result<()> {
        Ok(nodes::destroy(&self.own()?, node).await?)
    }

    async fn set_maintenance(&self, node: Uuid, on: bool, reason: Option<String>) -> Result<()> {
        Ok(nodes::maintenance(&self.own()?, node, on, reason).await?)
    }

    async fn change_power(
        &self,
        node: Uuid,
        target: PowerTarget,
        timeout: Option<u32>,
    ) -> Result<()> {
        Ok(provision::change_power(&self.own()?, node, target, timeout).await?)
    }

    async fn provision(&self, node: Uuid, request: ProvisionRequest) -> Result<()> {
        Ok(provision::provision(&self.own()?, node, request).await?)
    }

    async fn validate(&self, node: Uuid) -> Result<BTreeMap<String, Validation>> {
        let node = self.known(node).await?;
        Ok(validate::all(self, &node).await?)
    }

    async fn set_boot_device(
        &self,
        node: Uuid,
        device: BootDevice,
        persistent: bool,
    ) -> Result<()> {
        let task = Task::take(&self.own()?, node, self.config.pace.lock_wait).await?;
        let work = self.set_device(&task, device, persistent);
        let outcome = task.fence().guard(work).await;
        task.release().await;
        Ok(outcome?)
    }

    async fn boot_device(&self, node: Uuid) -> Result<BootDeviceSetting> {
        let node = self.known(node).await?;
        let management = drivers::management(&node)?;
        management.validate(self, &node)?;
        let (boot_device, persistent) = management.boot_device(self, &node).await?;
        Ok(BootDeviceSetting {
            boot_device,
            persistent,
        })
    }

    async fn supported_boot_devices(&self, node: Uuid) -> Result<Vec<BootDevice>> {
        let node = self.known(node).await?;
        let management = drivers::management(&node)?;
        management.validate(self, &node)?;
        Ok(management.boot_devices(self, &node).await?)
    }

    async fn heartbeat(&self, node: Uuid, heartbeat: Heartbeat) -> Result<()> {
        Ok(heartbeat::heartbeat(&self.own()?, node, heartbeat).await?)
    }

    async fn lookup(&self, node: Uuid) -> Result<Map<String, Value>> {
        Ok(heartbeat::lookup(&self.own()?, node).await?)
    }

    async fn create_record(&self, record: Record) -> Result<Record> {
        Ok(records::create(&self.own()?, record).await?)
    }

    async fn update_record(&self, record: Record) -> Result<Record> {
        Ok(records::update(&self.own()?, record).await?)
    }

    async fn destroy_record(&self, record: Record) -> Result<()> {
        Ok(records::destroy(&self.own()?, record).await?)
    }

    async fn continue_inspection(&self, node: Option<Uuid>, found: Inventory) -> Result<Inspected> {
        Ok(inspection::continue_inspection(&self.own()?, node, found).await?)
    }
}
