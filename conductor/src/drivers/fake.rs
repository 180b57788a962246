//! `fake-hardware`: no machine at all. Power is what was last asked for, the
//! boot device is kept in the node, deploy and clean are over at once.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use wrought_bmc::redfish::BootMode;
use wrought_bmc::redfish::PowerAction;
use wrought_store::node::Node;
use wrought_store::port::Port;
use wrought_wire::state::BootDevice;
use wrought_wire::state::PowerState;
use wrought_wire::step::Step;

use super::Boot;
use super::Deploy;
use super::Management;
use super::Power;
use crate::error::Error;
use crate::service::Service;
use crate::steps::Kind;
use crate::steps::Outcome;
use crate::steps::list::lenient;
use crate::task::Task;

/// The implementation of all four interfaces.
pub(super) struct Fake;

/// Management of machines whose boot order nobody sets.
pub(super) struct Noop;

#[async_trait]
impl Power for Fake {
    fn validate(&self, _svc: &Service, _node: &Node) -> Result<(), Error> {
        Ok(())
    }

    async fn state(&self, _svc: &Service, node: &Node) -> Result<PowerState, Error> {
        Ok(node.power_state.unwrap_or(PowerState::Off))
    }

    async fn reach(
        &self,
        _svc: &Service,
        _node: &Node,
        action: PowerAction,
        _within: Duration,
    ) -> Result<PowerState, Error> {
        Ok(match action {
            PowerAction::On | PowerAction::ForceRestart => PowerState::On,
            PowerAction::Off | PowerAction::SoftOff => PowerState::Off,
        })
    }
}

#[async_trait]
impl Management for Fake {
    fn validate(&self, _svc: &Service, _node: &Node) -> Result<(), Error> {
        Ok(())
    }

    async fn boot_devices(&self, _svc: &Service, _node: &Node) -> Result<Vec<BootDevice>, Error> {
        Ok(vec![BootDevice::Pxe])
    }

    async fn boot_device(
        &self,
        _svc: &Service,
        _node: &Node,
    ) -> Result<(Option<BootDevice>, Option<bool>), Error> {
        Ok((Some(BootDevice::Pxe), Some(false)))
    }

    async fn set_boot_device(
        &self,
        _svc: &Service,
        _node: &Node,
        _device: BootDevice,
        _persistent: bool,
        _mode: Option<BootMode>,
    ) -> Result<(), Error> {
        Ok(())
    }
}

#[async_trait]
impl Management for Noop {
    fn validate(&self, _svc: &Service, _node: &Node) -> Result<(), Error> {
        Ok(())
    }

    async fn boot_devices(&self, _svc: &Service, _node: &Node) -> Result<Vec<BootDevice>, Error> {
        Ok(Vec::new())
    }

    async fn boot_device(
        &self,
        _svc: &Service,
        _node: &Node,
    ) -> Result<(Option<BootDevice>, Option<bool>), Error> {
        Ok((None, None))
    }

    /// The machine boots in the order that somebody set up in its firmware.
    async fn set_boot_device(
        &self,
        _svc: &Service,
        _node: &Node,
        _device: BootDevice,
        _persistent: bool,
        _mode: Option<BootMode>,
    ) -> Result<(), Error> {
        Ok(())
    }
}

#[async_trait]
impl Boot for Fake {
    fn validate(&self, _svc: &Service, _node: &Node, _ports: &[Port]) -> Result<(), Error> {
        Ok(())
    }

    async fn prepare_ramdisk(&self, _task: &mut Task) -> Result<(), Error> {
        Ok(())
    }

    async fn clean_up_ramdisk(&self, _task: &mut Task) -> Result<(), Error> {
        Ok(())
    }

    async fn prepare_instance(&self, _task: &mut Task) -> Result<(), Error> {
        Ok(())
    }
}

#[async_trait]
impl Deploy for Fake {
    fn validate(&self, _svc: &Service, _node: &Node) -> Result<(), Error> {
        Ok(())
    }

    fn cleans_by_agent(&self) -> bool {
        false
    }

    fn steps(&self, kind: Kind, _node: &Node) -> Vec<Step> {
        let steps = match kind {
            Kind::Deploy => serde_json::json!([
                {"interface": "deploy", "step": "deploy", "priority": 100, "abortable": true, "repeatable": true},
            ]),
            Kind::Clean => serde_json::json!([
                {"interface": "vendor", "step": "log_passthrough", "priority": 1, "repeatable": true},
            ]),
        };
        steps
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(lenient)
            .collect()
    }

    fn is_in_band(&self, _step: &Step) -> bool {
        false
    }

    async fn run(&self, _task: &mut Task, _kind: Kind, _step: &Step) -> Result<Outcome, Error> {
        Ok(Outcome::Done)
    }

    async fn ended(&self, _task: &mut Task, _step: &Step, _result: &Value) -> Result<(), Error> {
        Ok(())
    }

    async fn tear_down(&self, _task: &mut Task) -> Result<(), Error> {
        Ok(())
    }
}
