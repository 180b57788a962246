//! Simulated machines by the hundred: what a conductor sees of a machine with a
//! Redfish BMC, its boot, and the agent in its ramdisk, without the machine.
//!
//! All of a [`Sim`]'s machines live on threads of its own. A [`Machine`] that is
//! switched on with network or disc as its boot device fetches what the
//! conductor has put up for it, as firmware would, and then is an agent: it
//! looks itself up, serves commands by TLS with a key of its own, calls in, and
//! takes its time for steps ([`agent`], [`commands`], [`work`]). Switched off,
//! or restarted by itself, it has lost all of that. Its [`log`] stays: every
//! command with the epoch of its sender, every change of power, every request
//! to the BMC ([`redfish`]).

pub mod agent;
pub mod boot;
pub mod commands;
pub mod log;
pub mod machine;
pub mod program;
pub mod redfish;
pub mod work;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use anyhow::Context;
use anyhow::Result;
use serde_json::Value;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::runtime::Runtime;

use crate::api::Api;
use crate::bmc::auth::Accounts;

pub use machine::Habits;
pub use machine::Machine;
pub use program::Program;

/// What machines find around them.
#[derive(Debug)]
pub(crate) struct Net {
    runtime: Handle,
    surroundings: Mutex<Surroundings>,
}

#[derive(Debug, Clone)]
struct Surroundings {
    /// Base URLs of the boot listeners that DHCP would name, in this order.
    boots: Vec<String>,
    /// A client that trusts the installation's CA, for whatever API URL the
    /// ramdisk is told.
    api: Api,
}

impl Net {
    fn now(&self) -> Surroundings {
        let surroundings = self.surroundings.lock();
        surroundings.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A machine hall; it is gone when this is dropped.
#[derive(Debug)]
pub struct Sim {
    runtime: Option<Runtime>,
    net: Arc<Net>,
    hall: Arc<redfish::Hall>,
    address: SocketAddr,
}

impl Sim {
    /// An empty hall, whose BMCs listen on a free port of loopback.
    pub fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("machines")
            .enable_all()
            .build()
            .context("starting the thread of the simulated machines")?;
        let net = Arc::new(Net {
            runtime: runtime.handle().clone(),
            surroundings: Mutex::new(Surroundings {
                boots: Vec::new(),
                api: Api::plain("http://127.0.0.1:9")?,
            }),
        });
        let hall = Arc::new(redfish::Hall {
            machines: Mutex::new(HashMap::new()),
            accounts: Accounts::new("wrought"),
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0")
            .context("listening for the simulated BMCs")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let router = redfish::router(Arc::clone(&hall));
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            axum::serve(listener, router).await
        });
        Ok(Self {
            runtime: Some(runtime),
            net,
            hall,
            address,
        })
    }

    /// Tells where boot artefacts are, and by which CA the API is known; none:
    /// it is spoken to without TLS.
    pub fn surround(&self, boots: &[String], ca: Option<&Path>) -> Result<()> {
        let nowhere = "http://127.0.0.1:9";
        let api = match ca {
            Some(ca) => Api::new(nowhere, ca, None)?,
            None => Api::plain(nowhere)?,
        };
        let boots = boots.to_vec();
        let surroundings = self.net.surroundings.lock();
        *surroundings.unwrap_or_else(PoisonError::into_inner) = Surroundings { boots, api };
        Ok(())
    }

    /// A new machine, switched off.
    pub fn machine(&self, name: &str, habits: Habits) -> Machine {
        let mut machines = self.hall.machines();
        let number = machines.len();
        let mac = format!(
            "52:54:02:{:02x}:{:02x}:{:02x}",
            number >> 16 & 0xff,
            number >> 8 & 0xff,
            number & 0xff
        );
        let machine = Machine::new(Arc::clone(&self.net), name, &mac, habits);
        machines.insert(name.to_owned(), machine.clone());
        machine
    }

    /// All machines.
    pub fn machines(&self) -> Vec<Machine> {
        self.hall.machines().values().cloned().collect()
    }

    /// `driver_info` of a node that is this machine.
    pub fn driver_info(&self, machine: &Machine) -> Value {
        json!({
            "redfish_address": format!("http://{}", self.address),
            "redfish_system_id": redfish::system(machine.name()),
            "redfish_username": self.hall.accounts.username(),
            "redfish_password": self.hall.accounts.password(),
            "redfish_auth_type": "basic",
        })
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It may be dropped where nothing may block.
            runtime.shutdown_background();
        }
    }
}
