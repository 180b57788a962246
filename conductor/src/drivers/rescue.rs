//! Rescue: a ramdisk with a login in the instance's place, and the way back.

use async_trait::async_trait;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_store::node::Node;
use wrought_store::port::Port;

use crate::agent;
use crate::drivers;
use crate::error::Error;
use crate::flows::rescue::HASHED_PASSWORD;
use crate::flows::rescue::PASSWORD;
use crate::flows::service;
use crate::service::Service;
use crate::steps::inband;
use crate::steps::ramdisk;
use crate::task::Task;

/// The agent's command that takes the password.
const COMMAND: &str = "rescue.finalize_rescue";

/// How far a rescue is after it was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rescued {
    /// The user can log in.
    Finished,
    /// The ramdisk boots and will call.
    Waiting,
}

/// Rescuing. Each part may be done again at any time.
#[async_trait]
pub trait Rescue: Send + Sync {
    /// Whether the settings of the node and its ports suffice.
    fn validate(&self, svc: &Service, node: &Node, ports: &[Port]) -> Result<(), Error>;
    /// Starts the machine into the ramdisk.
    async fn rescue(&self, task: &mut Task) -> Result<Rescued, Error>;
    /// The ramdisk has called: gives it the password.
    async fn finalize(&self, task: &mut Task) -> Result<(), Error>;
    /// Starts the machine into its instance.
    async fn unrescue(&self, task: &mut Task) -> Result<(), Error>;
    /// Stops the machine, and takes back what was put up for the ramdisk.
    async fn clean_up(&self, task: &mut Task) -> Result<(), Error>;
}

/// Those that there are; `no-rescue` stands for none.
pub(super) const RESCUE: super::Table<dyn Rescue> = &[("agent", &Agent), ("fake", &Fake)];

/// The ramdisk with our agent, or a real ironic-python-agent.
struct Agent;

/// No machine, nothing to log in to.
struct Fake;

#[async_trait]
impl Rescue for Agent {
    fn validate(&self, svc: &Service, node: &Node, ports: &[Port]) -> Result<(), Error> {
        drivers::power(node)?.validate(svc, node)?;
        drivers::management(node)?.validate(svc, node)?;
        drivers::boot(node)?.validate(svc, node, ports)
    }

    async fn rescue(&self, task: &mut Task) -> Result<Rescued, Error> {
        ramdisk::boot(task).await?;
        Ok(Rescued::Waiting)
    }

    async fn finalize(&self, task: &mut Task) -> Result<(), Error> {
        let client = task.agent()?;
        let text = |key: &str| task.node.instance_info.get(key).and_then(Value::as_str);
        let (hashed, plain) = (text(HASHED_PASSWORD), text(PASSWORD));
        let Some(hashed) = hashed else {
            return Err(Error::Step(format!(
                "node {} has no {HASHED_PASSWORD} any more that its rescue ramdisk could be given",
                task.node.uuid
            )));
        };
        let refused = match client.run(COMMAND, params(hashed, true), true).await {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        // An old ramdisk takes the password itself only, which is kept where
        // that is allowed.
        let old = matches!(
            refused,
            agent::Error::Refused { .. } | agent::Error::Failed { .. }
        );
        let outcome = match plain.filter(|_| old) {
            Some(plain) => client.run(COMMAND, params(plain, false), true).await,
            None => Err(refused),
        };
        outcome.map(drop).map_err(inband::failed(task, COMMAND))
    }

    async fn unrescue(&self, task: &mut Task) -> Result<(), Error> {
        ramdisk::put_away(task, true).await?;
        service::start_instance(task).await
    }

    async fn clean_up(&self, task: &mut Task) -> Result<(), Error> {
        ramdisk::put_away(task, true).await
    }
}

fn params(password: &str, hashed: bool) -> Map<String, Value> {
    let params = json!({"rescue_password": password, "hashed": hashed});
    params.as_object().cloned().unwrap_or_default()
}

#[async_trait]
impl Rescue for Fake {
    fn validate(&self, _: &Service, _: &Node, _: &[Port]) -> Result<(), Error> {
        Ok(())
    }

    async fn rescue(&self, _: &mut Task) -> Result<Rescued, Error> {
        Ok(Rescued::Finished)
    }

    async fn finalize(&self, _: &mut Task) -> Result<(), Error> {
        Ok(())
    }

    async fn unrescue(&self, _: &mut Task) -> Result<(), Error> {
        Ok(())
    }

    async fn clean_up(&self, _: &mut Task) -> Result<(), Error> {
        Ok(())
    }
}
