//! `direct`: the agent fetches the image by itself and writes it.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_bmc::redfish::BootMode;
use wrought_store::node::Node;
use wrought_wire::state::PowerState;
use wrought_wire::state::PowerTarget;
use wrought_wire::step::Step;

use super::Deploy;
use super::boot_mode;
use super::image;
use crate::agent;
use crate::drivers;
use crate::error::Error;
use crate::error::chain;
use crate::internal;
use crate::logs;
use crate::power;
use crate::service::Service;
use crate::steps::Awaited;
use crate::steps::Kind;
use crate::steps::Outcome;
use crate::steps::Then;
use crate::steps::Wait;
use crate::steps::inband;
use crate::steps::list::lenient;
use crate::steps::ramdisk;
use crate::task::Task;

/// Time for the agent to install boot entries.
const BOOTLOADER_LIMIT: Duration = Duration::from_secs(600);

/// Steps of the conductor; every other one is the agent's.
const OWN: [&str; 5] = [
    "deploy",
    "prepare_instance_boot",
    "tear_down_agent",
    "switch_to_tenant_network",
    "boot_instance",
];

/// The implementation.
pub(super) struct Direct;

#[async_trait]
impl Deploy for Direct {
    fn validate(&self, _svc: &Service, node: &Node) -> Result<(), Error> {
        image::validate(node)
    }

    fn cleans_by_agent(&self) -> bool {
        true
    }

    fn steps(&self, kind: Kind, node: &Node) -> Vec<Step> {
        let mut names = vec![("deploy", 100), ("write_image", 80)];
        match kind {
            Kind::Clean | Kind::Service => return Vec::new(),
            Kind::Deploy => {}
        }
        let to_inject = |map: &Map<String, Value>| {
            map.get("inject_files").is_some_and(|files| match files {
                Value::Array(list) => !list.is_empty(),
                Value::Object(map) => !map.is_empty(),
                _ => false,
            })
        };
        if to_inject(&node.instance_info) || to_inject(&node.properties) {
            names.push(("inject_files", 60));
        }
        names.extend([
            ("prepare_instance_boot", 60),
            ("tear_down_agent", 40),
            ("switch_to_tenant_network", 30),
            ("boot_instance", 20),
        ]);
        let steps = names.into_iter().map(|(name, priority)| {
            json!({
                "interface": "deploy", "step": name, "priority": priority, "abortable": true,
                "repeatable": true, "argsinfo": argsinfo(name),
            })
        });
        steps.filter_map(|step| lenient(&step)).collect()
    }

    fn is_in_band(&self, step: &Step) -> bool {
        step.interface != "deploy" || !OWN.contains(&step.step.as_str())
    }

    async fn run(&self, task: &mut Task, kind: Kind, step: &Step) -> Result<Outcome, Error> {
        if self.is_in_band(step) {
            let mut step = step.clone();
            if kind == Kind::Deploy && step.interface == "deploy" {
                arguments(task, &mut step);
            }
            return inband::start(task, kind, &step).await;
        }
        match step.step.as_str() {
            "deploy" => {
                ramdisk::bring_up(task).await?;
                Ok(Outcome::Wait(Wait::for_agent(Then::Next)))
            }
            "prepare_instance_boot" => prepare_instance_boot(task).await,
            "tear_down_agent" => tear_down_agent(task).await,
            "boot_instance" => {
                power::set(task, PowerTarget::On, None).await?;
                Ok(Outcome::Done)
            }
            // The network interface `noop` has nothing to switch.
            _ => Ok(Outcome::Done),
        }
    }

    async fn ended(&self, task: &mut Task, step: &Step, result: &Value) -> Result<(), Error> {
        if step.step == "write_image"
            && let Some(root) = result.get("root_uuid").filter(|root| root.is_string())
        {
            internal::set(&mut task.node, internal::ROOT_UUID, root);
        }
        Ok(())
    }

    async fn tear_down(&self, task: &mut Task) -> Result<(), Error> {
        power::set(task, PowerTarget::Off, None).await
    }
}

/// What the agent's deploy steps take; the conductor's own take nothing.
fn argsinfo(step: &str) -> Value {
    match step {
        "write_image" => json!({
            "image_info": {
                "description": "The image: id, urls, disk_format and its checksum; that of \
                    instance_info when it is not given.",
                "required": false, "type": "object",
            },
            "configdrive": {
                "description": "The config drive; that of the request or of instance_info when \
                    it is not given.",
                "required": false,
            },
        }),
        "inject_files" => json!({
            "files": {
                "description": "Files with path, content and, where wanted, partition, mode and \
                    dirmode; those of instance_info when it is not given.",
                "required": false,
            },
            "verify_ca": {
                "description": "Whether certificates of file servers are verified.",
                "required": false,
            },
        }),
        _ => Value::Null,
    }
}

/// What the agent's deploy steps need beyond their own arguments.
fn arguments(task: &Task, step: &mut Step) {
    let node = &task.node;
    match step.step.as_str() {
        "write_image" => {
            let mode = boot_mode::of(node, &task.svc.config).as_str();
            let info = serde_json::to_value(image::info(node, mode)).unwrap_or_default();
            step.args.entry("image_info").or_insert(info);
            let configdrive = node.instance_info.get("configdrive").cloned();
            step.args
                .entry("configdrive")
                .or_insert(configdrive.unwrap_or(Value::Null));
        }
        "inject_files" => {
            if let Some(files) = node.instance_info.get("inject_files") {
                step.args.entry("files").or_insert(files.clone());
            }
        }
        _ => {}
    }
}

/// Boot entries by the agent, then the disk as boot device. May be done again.
async fn prepare_instance_boot(task: &mut Task) -> Result<Outcome, Error> {
    let mode = boot_mode::of(&task.node, &task.svc.config);
    if mode == BootMode::Uefi {
        let client = task.agent()?;
        let command = "standby.get_partition_uuids";
        let uuids = match client.run(command, Map::new(), true).await {
            Ok(answer) => answer.command_result.unwrap_or_default(),
            // Of an image that only firmware needs to understand.
            Err(agent::Error::Failed { details, .. }) => {
                tracing::warn!(node = %task.node.uuid, err = details, "partition UUIDs unknown");
                Value::Null
            }
            Err(error) if error.is_busy() => return Ok(when_idle()),
            Err(error) => return Err(inband::failed(task, command)(error)),
        };
        let known = internal::read::<Value>(&task.node, internal::ROOT_UUID);
        let root = uuids
            .get("root uuid")
            .cloned()
            .or(known)
            .unwrap_or(Value::Null);
        let esp = uuids
            .get("efi system partition uuid")
            .cloned()
            .unwrap_or(Value::Null);
        let params = json!({
            "root_uuid": root,
            "efi_system_part_uuid": esp,
            "prep_boot_part_uuid": null,
            "target_boot_mode": mode.as_str(),
        });
        let params = params.as_object().cloned().unwrap_or_default();
        let command = "image.install_bootloader";
        let started = match client.run(command, params, false).await {
            Err(error) if error.is_busy() => return Ok(when_idle()),
            started => started.map_err(inband::failed(task, command))?,
        };
        let every = task
            .svc
            .config
            .pace
            .agent_poll
            .min(Duration::from_millis(500));
        let ended = client
            .wait_for(command, started.id, every, BOOTLOADER_LIMIT)
            .await;
        ended.map_err(inband::failed(task, command))?;
    }
    task.confirm().await?;
    drivers::boot(&task.node)?.prepare_instance(task).await?;
    Ok(Outcome::Done)
}

/// The step once more, when the agent has ended what it is at: after a restart
/// of the conductor that may be the very command that it was given before.
fn when_idle() -> Outcome {
    Outcome::Wait(Wait {
        what: Awaited::Idle,
        then: Then::Repeat,
    })
}

/// The agent syncs and switches off; if it does not, the BMC does.
async fn tear_down_agent(task: &mut Task) -> Result<Outcome, Error> {
    if task.node_has_agent() && is_on(task).await? {
        logs::collect(task, Kind::Deploy, logs::End::Done).await;
        let client = task.agent()?;
        match client.run("standby.power_off", Map::new(), false).await {
            Ok(_) => wait_until_off(task).await?,
            Err(error) if error.is_connection() => wait_until_off(task).await?,
            Err(error) => {
                tracing::warn!(node = %task.node.uuid, err = %chain(&error),
                    "agent does not power off");
            }
        }
    }
    power::set(task, PowerTarget::Off, None).await?;
    task.confirm().await?;
    drivers::boot(&task.node)?.clean_up_ramdisk(task).await?;
    Ok(Outcome::Done)
}

async fn is_on(task: &Task) -> Result<bool, Error> {
    let state = drivers::power(&task.node)?
        .state(&task.svc, &task.node)
        .await?;
    Ok(state != PowerState::Off)
}

async fn wait_until_off(task: &Task) -> Result<(), Error> {
    let pace = task.svc.config.pace;
    let until = tokio::time::Instant::now() + pace.agent_power_off;
    while is_on(task).await? {
        if tokio::time::Instant::now() > until {
            tracing::warn!(node = %task.node.uuid, "agent did not power off, the BMC does");
            return Ok(());
        }
        tokio::time::sleep(pace.power_poll).await;
    }
    Ok(())
}
