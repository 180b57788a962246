//! A BMC that listens.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use anyhow::Result;
use serde_json::Value;
use serde_json::json;

use super::Machine;
use super::auth::Accounts;
use super::resources;
use super::routes;
use crate::netns;

/// What the routes share.
#[derive(Debug)]
pub struct Service {
    /// The machine that it manages.
    pub machine: Machine,
    /// Who may use it.
    pub accounts: Accounts,
    log: File,
}

impl Service {
    /// Writes a line into the BMC's log.
    pub fn note(&self, line: &str) {
        let now = jiff::Timestamp::now().strftime("%H:%M:%S%.3f").to_string();
        // A log that cannot be written must not change what the BMC does.
        writeln!(&self.log, "{now} {line}").ok();
    }
}

/// A BMC on an address of the namespace.
#[derive(Debug, Clone)]
pub struct Bmc {
    service: Arc<Service>,
    address: SocketAddr,
}

impl Bmc {
    /// Starts serving `machine` on a free port.
    pub async fn start(machine: Machine, log: &Path) -> Result<Self> {
        let log = File::create(log).with_context(|| format!("creating {}", log.display()))?;
        let service = Arc::new(Service {
            machine,
            accounts: Accounts::new("wrought"),
            log,
        });
        let listener = tokio::net::TcpListener::bind((netns::HOST, 0)).await?;
        let address = listener.local_addr()?;
        let router = routes::router(Arc::clone(&service));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { service, address })
    }

    /// The machine behind it.
    pub fn machine(&self) -> &Machine {
        &self.service.machine
    }

    /// `driver_info` of a node that is driven through it.
    pub fn driver_info(&self) -> Value {
        json!({
            "redfish_address": format!("http://{}", self.address),
            "redfish_system_id": resources::SYSTEM,
            "redfish_username": self.service.accounts.username(),
            "redfish_password": self.service.accounts.password(),
        })
    }
}
