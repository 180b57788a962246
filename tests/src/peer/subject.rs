//! The server that is asked: ours or a real Ironic, with the same hardware
//! types, the same host name and the same accounts.

use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use anyhow::Result;
use anyhow::ensure;

use super::client::Client;
use super::script::Ask;
use crate::bench::ironic::Ironic;
use crate::bench::ironic::Setup;
use crate::bench::serving::Wrought;
use crate::paths::Paths;
use crate::paths::existing;

/// The conductor's host name on both sides.
pub const HOST: &str = "peer";
/// The account of a server that asks for one, as a header's value.
const ACCOUNT: &str = "Basic YWRtaW46c2VjcmV0";
/// For the conductor to offer its drivers.
const START: Duration = Duration::from_secs(60);

/// Interfaces of the real one, so that both offer the same; the default of
/// each hardware type first.
const INTERFACES: [(&str, &str); 13] = [
    ("bios", "fake,no-bios,redfish"),
    ("boot", "fake,ipxe,redfish-virtual-media"),
    ("console", "fake,no-console"),
    ("deploy", "fake,direct,autodetect"),
    ("firmware", "fake,no-firmware,redfish"),
    ("inspect", "fake,no-inspect,agent,redfish"),
    ("management", "fake,noop,redfish"),
    ("network", "noop"),
    ("power", "fake,redfish"),
    ("raid", "fake,no-raid,agent,redfish"),
    ("rescue", "fake,no-rescue,agent"),
    ("storage", "noop,fake,external"),
    ("vendor", "fake,no-vendor,redfish"),
];

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `wrought serve`.
    Wrought,
    /// A real Ironic.
    Ironic,
}

/// A running server with its files.
#[derive(Debug)]
pub struct Subject {
    server: Server,
    client: Client,
    work: tempfile::TempDir,
}

#[derive(Debug)]
enum Server {
    Wrought(Wrought),
    Ironic(Ironic),
}

impl Subject {
    /// Starts it with an empty database; `accounts`: it asks for one.
    pub async fn start(paths: &Paths, kind: Kind, accounts: bool) -> Result<Self> {
        Self::configured(paths, kind, accounts, "").await
    }

    /// The same with more lines of configuration: tables of ours, or what is
    /// below `[inspector]` of the real one.
    pub async fn configured(paths: &Paths, kind: Kind, accounts: bool, more: &str) -> Result<Self> {
        std::fs::create_dir_all(&paths.runs)?;
        let work = tempfile::Builder::new()
            .prefix("peer-")
            .tempdir_in(&paths.runs)?;
        let users = work.path().join("htpasswd");
        if accounts {
            let line = format!("admin:{}\n", bcrypt::hash("secret", 4)?);
            crate::server::write_secret(&users, &line)?;
        }
        let users = accounts.then_some(users.as_path());
        let (server, address) = match kind {
            Kind::Wrought => {
                let server = wrought(paths, work.path(), users, more).await?;
                let address = server.address;
                (Server::Wrought(server), address)
            }
            Kind::Ironic => {
                let server = ironic(paths, work.path(), users, more).await?;
                let address = server.target().address;
                (Server::Ironic(server), address)
            }
        };
        let subject = Self {
            server,
            client: Client::new(&format!("http://{address}"))?,
            work,
        };
        subject.ready().await?;
        Ok(subject)
    }

    /// Its client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A folder that goes with it.
    pub fn work(&self) -> &Path {
        self.work.path()
    }

    /// Ends it.
    pub async fn stop(mut self) {
        match &mut self.server {
            Server::Wrought(server) => server.stop().await,
            Server::Ironic(server) => server.stop().await,
        }
    }

    /// Waits until its conductor offers drivers.
    async fn ready(&self) -> Result<()> {
        let mut ask = Ask::get("/v1/drivers");
        ask.headers.push(("Authorization".into(), ACCOUNT.into()));
        let until = Instant::now() + START;
        loop {
            if let Ok(answer) = self.client.ask(&ask).await
                && answer.json()["drivers"][0].is_object()
            {
                return Ok(());
            }
            ensure!(Instant::now() < until, "the server offers no drivers");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn wrought(paths: &Paths, work: &Path, users: Option<&Path>, more: &str) -> Result<Wrought> {
    let auth = match users {
        Some(users) => format!("basic:{}", users.display()),
        None => "none".to_owned(),
    };
    let more = format!(
        "host = {HOST:?}\nauth = {auth:?}\n[drivers]\nhardware_types = [\"fake-hardware\", \
         \"redfish\"]\n{more}"
    );
    let mut server = Wrought::configured(&paths.binary("wrought")?, work, false, &more)?;
    server.start().await?;
    Ok(server)
}

async fn ironic(paths: &Paths, work: &Path, users: Option<&Path>, more: &str) -> Result<Ironic> {
    let venv = existing(
        paths.root.join("target/tools/ironic"),
        "cargo xtask peer record",
    )?;
    let setup = Setup {
        host: HOST,
        hardware: "fake-hardware,redfish",
        interfaces: &INTERFACES,
        accounts: users,
        inspector: more,
    };
    let mut server = Ironic::new(&venv, work, &setup).await?;
    server.start().await?;
    Ok(server)
}
