//! `fake-hardware`: no machine at all. Power is what was last asked for, the
//! boot device is kept in the node, deploy and clean are over at once.

use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;
use wrought_bmc::redfish::BootMode;
use wrought_bmc::redfish::PowerAction;
use wrought_rpc::Indicator;
use wrought_rpc::Media;
use wrought_store::BiosSetting;
use wrought_store::node::Node;
use wrought_store::port::Port;
use wrought_wire::state::BootDevice;
use wrought_wire::state::IndicatorState;
use wrought_wire::state::MediaKind;
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
use crate::task::store;

/// Keeps the settings of a step beside those that are known.
async fn apply_bios(task: &Task, step: &Step) -> Result<(), Error> {
    let given = step.args.get("settings").cloned().unwrap_or_default();
    let given: Vec<Given> = serde_json::from_value(given).map_err(|error| {
        Error::Step(format!(
            "bios.apply_configuration: settings: expected a list of objects with name and value: \
             {error}"
        ))
    })?;
    let known = task.svc.store.parts::<BiosSetting>(task.node.uuid).await;
    let known = known.map_err(store("read BIOS settings"))?;
    let mut settings: Vec<BiosSetting> = known.into_iter().map(|known| known.part).collect();
    // Of two with the same name the later one counts.
    settings.extend(given.into_iter().map(|given| BiosSetting {
        name: given.name,
        value: Some(given.value),
        ..BiosSetting::default()
    }));
    task.replace_parts(settings).await
}

/// A setting of a step.
#[derive(Deserialize)]
struct Given {
    name: String,
    value: String,
}

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

    fn verify_steps(&self, _: &Node) -> Vec<Step> {
        let step = serde_json::json!({
            "interface": "management", "step": "fake_verify", "priority": 1, "repeatable": true,
        });
        lenient(&step).into_iter().collect()
    }

    /// Fails when `driver_info.fake_verify_error` says how.
    async fn verify(&self, task: &mut Task, _: &Step) -> Result<(), Error> {
        match task.node.driver_info.get("fake_verify_error") {
            Some(Value::String(error)) => Err(Error::Step(error.clone())),
            _ => Ok(()),
        }
    }

    /// Kept in the node alone.
    async fn set_boot_mode(&self, _: &Service, _: &Node, _: BootMode) -> Result<(), Error> {
        Ok(())
    }

    /// Kept in the node alone.
    async fn set_secure_boot(&self, _: &Service, _: &Node, _: bool) -> Result<(), Error> {
        Ok(())
    }

    /// Those of Ironic's.
    async fn indicators(
        &self,
        _: &Service,
        _: &Node,
    ) -> Result<Vec<(Indicator, IndicatorState)>, Error> {
        let light = |component: &str, name: &str, readonly, states: &[IndicatorState]| Indicator {
            component: component.to_owned(),
            name: name.to_owned(),
            readonly,
            states: states.to_vec(),
        };
        let all = [
            IndicatorState::Blinking,
            IndicatorState::Off,
            IndicatorState::On,
        ];
        Ok(vec![
            (
                light("chassis", "led-0", true, &all[1..]),
                IndicatorState::On,
            ),
            (light("system", "led", false, &all), IndicatorState::On),
        ])
    }

    /// Goes nowhere.
    async fn attach_media(&self, _: &Service, _: &Node, _: &Media) -> Result<(), Error> {
        Ok(())
    }

    /// There is nothing.
    async fn detach_media(&self, _: &Service, _: &Node, _: &[MediaKind]) -> Result<(), Error> {
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

    fn steps(&self, kind: Kind, node: &Node) -> Vec<Step> {
        let has = |step: &Step| {
            matches!(step.interface.as_str(), "deploy" | "vendor")
                || node
                    .interfaces
                    .get(&step.interface)
                    .is_some_and(|name| name == "fake")
        };
        let steps = match kind {
            Kind::Deploy => serde_json::json!([
                {"interface": "deploy", "step": "deploy", "priority": 100, "abortable": true, "repeatable": true},
            ]),
            Kind::Clean | Kind::Service => serde_json::json!([
                {"interface": "vendor", "step": "log_passthrough", "priority": 1, "repeatable": true},
                {
                    "interface": "bios", "step": "apply_configuration", "priority": 0, "repeatable": true,
                    "argsinfo": {"settings": {
                        "description": "Settings: a list of objects with name and value.",
                        "required": true, "type": "array",
                    }},
                },
                {"interface": "bios", "step": "factory_reset", "priority": 0, "repeatable": true},
                {
                    "interface": "raid", "step": "create_configuration", "priority": 0, "repeatable": true,
                    "argsinfo": {
                        "create_root_volume": {"description": "Whether to make the root volume.", "type": "boolean"},
                        "create_nonroot_volumes": {"description": "Whether to make the others.", "type": "boolean"},
                        "delete_existing": {"description": "Whether to delete what there is first.", "type": "boolean"},
                    },
                },
                {"interface": "raid", "step": "delete_configuration", "priority": 0, "repeatable": true},
            ]),
        };
        steps
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(lenient)
            .filter(has)
            .collect()
    }

    fn is_in_band(&self, _step: &Step) -> bool {
        false
    }

    async fn run(&self, task: &mut Task, _kind: Kind, step: &Step) -> Result<Outcome, Error> {
        match (step.interface.as_str(), step.step.as_str()) {
            ("bios", "apply_configuration") => apply_bios(task, step).await?,
            ("bios", "factory_reset") => task.replace_parts::<BiosSetting>(Vec::new()).await?,
            _ => {}
        }
        Ok(Outcome::Done)
    }

    async fn ended(&self, _task: &mut Task, _step: &Step, _result: &Value) -> Result<(), Error> {
        Ok(())
    }

    async fn tear_down(&self, _task: &mut Task) -> Result<(), Error> {
        Ok(())
    }
}
