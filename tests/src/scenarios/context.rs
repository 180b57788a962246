//! What a scenario works with.

use anyhow::Context as _;
use anyhow::Result;

use crate::accel::Accel;
use crate::account::Account;
use crate::bmc::Bmc;
use crate::deploy::Node;
use crate::netns::HostPort;
use crate::qemu::Firmware;
use crate::world;
use crate::world::MachineOptions;
use crate::world::World;

/// A scenario's world and account.
#[derive(Debug)]
pub struct Context {
    /// Who is told.
    pub account: Account,
    /// The override of the accelerator.
    pub accel: Option<Accel>,
    name: String,
    port: Option<HostPort>,
    world: Option<World>,
}

impl Context {
    /// A context without a world yet.
    pub fn new(name: &str, port: HostPort, accel: Option<Accel>) -> Self {
        Self {
            account: Account::new(false),
            accel,
            name: name.to_owned(),
            port: Some(port),
            world: None,
        }
    }

    /// Starts the world.
    pub async fn start(&mut self) -> Result<&mut World> {
        self.start_with(world::Options::default()).await
    }

    /// Starts the world with more options.
    pub async fn start_with(&mut self, options: world::Options) -> Result<&mut World> {
        let options = world::Options {
            label: self.name.clone(),
            accel: self.accel,
            host_port: if options.script_only.is_none() {
                self.port.take()
            } else {
                None
            },
            ..options
        };
        let world = self.world.insert(World::start(options).await?);
        self.account.say(&format!(
            "the world is up; logs in {}",
            world.run().log("").display()
        ));
        Ok(world)
    }

    /// The world.
    pub fn world(&mut self) -> Result<&mut World> {
        self.world
            .as_mut()
            .context("the world has not been started")
    }

    /// A new machine that is enrolled, cleaned and available.
    pub async fn available(&mut self, name: &str, firmware: Firmware) -> Result<(Bmc, Node)> {
        let account = self.account.clone();
        let world = self.world()?;
        let bmc = world
            .add_machine(name, MachineOptions::new(firmware))
            .await?;
        let node = Node::enrol(world, &bmc, "ipxe", &account).await?;
        node.make_available().await?;
        Ok((bmc, node))
    }

    /// Takes the world down.
    pub async fn stop(&mut self) {
        if let Some(world) = self.world.take() {
            world.stop().await;
        }
    }
}
