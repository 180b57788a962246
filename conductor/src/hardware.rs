//! The conductor as the API sees it, for all that concerns a node's hardware
//! beyond power and provisioning.

mod deed;
mod raid;
mod vendor;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_rpc::Hardware;
use wrought_rpc::Indicator;
use wrought_rpc::Media;
use wrought_rpc::MediaDevice;
use wrought_rpc::Result;
use wrought_rpc::VendorCall;
use wrought_rpc::VendorMethod;
use wrought_rpc::Vif;
use wrought_store::node::Node;
use wrought_wire::state::BootMode;
use wrought_wire::state::IndicatorState;
use wrought_wire::state::MediaKind;
use wrought_wire::state::ProvisionState;

use crate::drivers;
use crate::drivers::catalog::HardwareType;
use crate::error::Error;
use crate::flows::Permit;
use crate::hardware::deed::Deed;
use crate::service::Service;
use crate::task::Task;

type Outcome<T> = std::result::Result<T, Error>;

/// Takes the node's lock for a request.
async fn take(svc: &Arc<Service>, node: Uuid) -> Outcome<Task> {
    Task::take(svc, node, svc.config.pace.lock_wait).await
}

/// Gives the lock back after what a request did at once.
async fn done<T>(task: Task, outcome: Outcome<T>) -> Result<T> {
    task.release().await;
    Ok(outcome?)
}

/// Nothing is changed beneath an operation that runs.
fn at_rest(node: &Node) -> Outcome<()> {
    use ProvisionState as S;
    let moving = matches!(
        node.provision_state,
        S::Verifying
            | S::Deploying
            | S::DeployWait
            | S::Deleting
            | S::Cleaning
            | S::CleanWait
            | S::Inspecting
            | S::InspectWait
            | S::Adopting
            | S::Rescuing
            | S::RescueWait
            | S::Unrescuing
            | S::Servicing
            | S::ServiceWait
    );
    if !moving {
        return Ok(());
    }
    Err(Error::Conflict(format!(
        "Node {} can not be updated while a state transition is in progress: it is in state \
         \"{}\".",
        node.uuid, node.provision_state
    )))
}

/// The driver of that name.
fn driver<'a>(svc: &'a Service, name: &str) -> Outcome<&'a HardwareType> {
    svc.catalog
        .find(name)
        .ok_or_else(|| Error::NotFound(format!("The driver '{name}' is unknown.")))
}

/// One of the node's indicators with its state.
async fn light(
    svc: &Service,
    node: &Node,
    component: &str,
    name: &str,
) -> Outcome<(Indicator, IndicatorState)> {
    let all = drivers::management(node)?.indicators(svc, node).await?;
    let mut of: Vec<_> = all
        .into_iter()
        .filter(|(indicator, _)| indicator.component == component)
        .collect();
    if of.is_empty() {
        let text = format!("Invalid component {component} specified.");
        return Err(Error::Invalid(text));
    }
    let place = of.iter().position(|(indicator, _)| indicator.name == name);
    let place =
        place.ok_or_else(|| Error::Invalid(format!("Invalid indicator {name} specified.")))?;
    Ok(of.swap_remove(place))
}

impl Service {
    /// Checks a node for a deed, then does that in the background.
    async fn begin(
        &self,
        node: Uuid,
        deed: Deed,
        check: impl FnOnce(&Node) -> Outcome<()> + Send,
    ) -> Result<()> {
        let svc = self.own()?;
        let permit: Permit = svc.permit()?;
        let mut task = take(&svc, node).await?;
        let begun = match check(&task.node) {
            Ok(()) => {
                // A failed operation's reason outlives such a request.
                if !task.node.provision_state.is_failure() {
                    task.node.last_error = None;
                }
                task.save().await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = begun {
            task.release().await;
            return Err(error.into());
        }
        deed::spawn(&svc, task, deed, permit);
        Ok(())
    }
}

#[async_trait]
impl Hardware for Service {
    async fn set_target_raid(&self, node: Uuid, config: Map<String, Value>) -> Result<()> {
        let mut task = take(&self.own()?, node).await?;
        let outcome = raid::set(&mut task, config).await;
        done(task, outcome).await
    }

    async fn raid_properties(&self, name: &str) -> Result<BTreeMap<String, String>> {
        Ok(raid::properties(driver(self, name)?)?)
    }

    async fn change_boot_mode(&self, node: Uuid, mode: BootMode) -> Result<()> {
        self.begin(node, Deed::BootMode(mode), |node| {
            at_rest(node)?;
            drivers::management(node)?.validate(self, node)
        })
        .await
    }

    async fn change_secure_boot(&self, node: Uuid, on: bool) -> Result<()> {
        self.begin(node, Deed::SecureBoot(on), |node| {
            at_rest(node)?;
            drivers::management(node)?.validate(self, node)
        })
        .await
    }

    async fn inject_nmi(&self, node: Uuid) -> Result<()> {
        let task = take(&self.own()?, node).await?;
        let outcome = async {
            let management = drivers::management(&task.node)?;
            management.validate(self, &task.node)?;
            task.confirm().await?;
            management.inject_nmi(self, &task.node).await
        };
        let outcome = task.fence().guard(outcome).await;
        done(task, outcome).await
    }

    async fn indicators(&self, node: Uuid) -> Result<Vec<Indicator>> {
        let node = self.known(node).await?;
        let management = drivers::management(&node)?;
        management.validate(self, &node)?;
        let lights = management.indicators(self, &node).await?;
        Ok(lights.into_iter().map(|(indicator, _)| indicator).collect())
    }

    async fn indicator(&self, node: Uuid, component: &str, name: &str) -> Result<IndicatorState> {
        let node = self.known(node).await?;
        drivers::management(&node)?.validate(self, &node)?;
        Ok(light(self, &node, component, name).await?.1)
    }

    async fn set_indicator(
        &self,
        node: Uuid,
        component: &str,
        name: &str,
        state: IndicatorState,
    ) -> Result<()> {
        let task = take(&self.own()?, node).await?;
        let outcome = async {
            let management = drivers::management(&task.node)?;
            management.validate(self, &task.node)?;
            let (indicator, _) = light(self, &task.node, component, name).await?;
            task.confirm().await?;
            management
                .set_indicator(self, &task.node, &indicator, state)
                .await
        };
        let outcome = task.fence().guard(outcome).await;
        done(task, outcome).await
    }

    async fn console(&self, node: Uuid) -> Result<Option<Value>> {
        let node = self.known(node).await?;
        if !node.console_enabled {
            return Ok(None);
        }
        Ok(Some(drivers::console(&node)?.info(&node)))
    }

    async fn set_console(&self, node: Uuid, on: bool) -> Result<()> {
        self.begin(node, Deed::Console(on), |node| {
            drivers::console(node).map(drop)
        })
        .await
    }

    async fn vifs(&self, node: Uuid) -> Result<Vec<String>> {
        let node = self.known(node).await?;
        Ok(drivers::network(&node)?.vifs(self, &node).await?)
    }

    async fn attach_vif(&self, node: Uuid, vif: Vif) -> Result<()> {
        let task = take(&self.own()?, node).await?;
        let outcome = match drivers::network(&task.node) {
            Ok(network) => network.attach(self, &task.node, &vif).await,
            Err(error) => Err(error),
        };
        done(task, outcome).await
    }

    async fn detach_vif(&self, node: Uuid, id: &str) -> Result<()> {
        let task = take(&self.own()?, node).await?;
        let outcome = match drivers::network(&task.node) {
            Ok(network) => network.detach(self, &task.node, id).await,
            Err(error) => Err(error),
        };
        done(task, outcome).await
    }

    async fn media(&self, node: Uuid) -> Result<Vec<MediaDevice>> {
        let node = self.known(node).await?;
        let management = drivers::management(&node)?;
        management.validate(self, &node)?;
        Ok(management.media(self, &node).await?)
    }

    async fn attach_media(&self, node: Uuid, media: Media) -> Result<()> {
        self.begin(node, Deed::Attach(media), |node| {
            drivers::management(node)?.validate(self, node)
        })
        .await
    }

    async fn detach_media(&self, node: Uuid, kinds: Vec<MediaKind>) -> Result<()> {
        let kinds = match kinds.is_empty() {
            true => MediaKind::ALL.to_vec(),
            false => kinds,
        };
        self.begin(node, Deed::Detach(kinds), |node| {
            drivers::management(node)?.validate(self, node)
        })
        .await
    }

    async fn vendor_methods(&self, node: Uuid) -> Result<BTreeMap<String, VendorMethod>> {
        let node = self.known(node).await?;
        Ok(vendor::methods(drivers::vendor(&node)?))
    }

    async fn vendor_call(&self, node: Uuid, call: VendorCall) -> Result<Option<Value>> {
        vendor::call(self, node, call).await
    }

    /// No driver has methods without a node.
    async fn driver_vendor_methods(&self, name: &str) -> Result<BTreeMap<String, VendorMethod>> {
        driver(self, name)?;
        Ok(BTreeMap::new())
    }

    async fn driver_vendor_call(&self, name: &str, call: VendorCall) -> Result<Option<Value>> {
        driver(self, name)?;
        Err(vendor::no_handler(&call.method).into())
    }
}
