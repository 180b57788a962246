//! A real Ironic beside ours: the `ironic` program of the package index (API
//! and conductor in one process, which is the form its makers support with
//! SQLite), hardware type `fake-hardware`, no authentication, plain HTTP. It
//! lies in a virtual environment that `cargo xtask bench api` makes.

use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;

use super::load::Target;
use super::serving::Serving;
use super::serving::free_address;
use crate::api::Api;
use crate::child;

/// Interface kinds with what is switched on of each, the default first.
const INTERFACES: [(&str, &str); 13] = [
    ("bios", "fake,no-bios"),
    ("boot", "fake"),
    ("console", "fake,no-console"),
    ("deploy", "fake,direct"),
    ("firmware", "fake,no-firmware"),
    ("inspect", "fake,no-inspect"),
    ("management", "fake,noop"),
    ("network", "noop"),
    ("power", "fake"),
    ("raid", "fake,no-raid"),
    ("rescue", "fake,no-rescue"),
    ("storage", "noop"),
    ("vendor", "fake,no-vendor"),
];

/// What is switched on.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// The conductor's name.
    pub host: &'a str,
    /// Hardware types, with commas.
    pub hardware: &'a str,
    /// Interface kinds with the names of what is on.
    pub interfaces: &'a [(&'a str, &'a str)],
    /// A file of accounts; without it nobody is asked who they are.
    pub accounts: Option<&'a Path>,
    /// More lines of `[inspector]`.
    pub inspector: &'a str,
}

/// As it is measured: no accounts, and no more than is used.
pub const MEASURED: Setup<'static> = Setup {
    host: "peer",
    hardware: "fake-hardware",
    interfaces: &INTERFACES,
    accounts: None,
    inspector: "",
};

/// The server.
#[derive(Debug)]
pub struct Ironic {
    venv: PathBuf,
    work: PathBuf,
    address: SocketAddr,
    serving: Option<Serving>,
}

impl Ironic {
    /// Writes its configuration and makes its database.
    pub async fn new(venv: &Path, work: &Path, setup: &Setup<'_>) -> Result<Self> {
        let ironic = Self {
            venv: venv.to_owned(),
            work: work.to_owned(),
            address: free_address()?,
            serving: None,
        };
        // The interfaces for booting look for their folders at the start.
        for folder in ["http", "tftp"] {
            std::fs::create_dir_all(work.join(folder))?;
        }
        std::fs::write(ironic.config(), ironic.configuration(setup))?;
        let made = child::command(venv.join("bin/ironic-dbsync"))
            .arg("--config-file")
            .arg(ironic.config())
            .arg("create_schema")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .await
            .context("starting ironic-dbsync")?;
        let log = ironic.log();
        ensure!(
            made.success(),
            "ironic-dbsync ended with {made}; see {}",
            log.display()
        );
        Ok(ironic)
    }

    fn config(&self) -> PathBuf {
        self.work.join("ironic.conf")
    }

    fn log(&self) -> PathBuf {
        self.work.join("ironic.log")
    }

    fn configuration(&self, setup: &Setup<'_>) -> String {
        let work = self.work.display();
        let (host, port) = (self.address.ip(), self.address.port());
        let enabled: String = setup
            .interfaces
            .iter()
            .map(|(kind, names)| format!("enabled_{kind}_interfaces = {names}\n"))
            .collect();
        let auth = match setup.accounts {
            Some(users) => format!(
                "http_basic\nhttp_basic_auth_user_file = {}",
                users.display()
            ),
            None => "noauth".to_owned(),
        };
        format!(
            "[DEFAULT]\nauth_strategy = {auth}\nhost = {host_name}\nrpc_transport = none\n\
             state_path = {work}\nlog_file = {log}\ndefault_log_levels = ironic=ERROR\n\
             autodetect_deploy_interfaces = direct\nenabled_hardware_types = {hardware}\n{enabled}\
             [database]\nconnection = sqlite:///{work}/ironic.sqlite\n\
             [api]\nhost_ip = {host}\nport = {port}\n\
             [service_catalog]\nauth_type = none\nendpoint_override = http://{address}\n\
             [agent]\nrequire_tls = False\n\
             [deploy]\nhttp_root = {work}/http\n\
             [inspector]\nrequire_managed_boot = False\n{inspector}\
             [pxe]\ntftp_root = {work}/tftp\n\
             [oslo_concurrency]\nlock_path = {work}/locks\n",
            log = self.log().display(),
            address = self.address,
            host_name = setup.host,
            hardware = setup.hardware,
            inspector = setup.inspector,
        )
    }

    /// Starts it.
    pub async fn start(&mut self) -> Result<()> {
        let mut command = child::command(self.venv.join("bin/ironic"));
        command.arg("--config-file").arg(self.config());
        let log = self.work.join("output.log");
        let serving = Serving::start("ironic", command, self.address, &log, "").await?;
        self.serving = Some(serving);
        Ok(())
    }

    /// The running process.
    pub fn serving(&self) -> Result<&Serving> {
        self.serving.as_ref().context("Ironic does not run")
    }

    /// Ends it.
    pub async fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.stop().await;
        }
    }

    /// A client of its API.
    pub fn api(&self) -> Result<Api> {
        Api::plain(&format!("http://{}", self.address))
    }

    /// Where load goes.
    pub fn target(&self) -> Target {
        Target {
            address: self.address,
            tls: None,
        }
    }

    /// Its database.
    pub fn database(&self) -> String {
        format!("sqlite:{}", self.work.join("ironic.sqlite").display())
    }

    /// The version of the installed package.
    pub fn version(&self) -> String {
        installed(&self.venv).unwrap_or_else(|| "unknown".to_owned())
    }
}

/// The version of the package in a virtual environment, if it is there.
pub fn installed(venv: &Path) -> Option<String> {
    let libraries = std::fs::read_dir(venv.join("lib")).ok()?;
    libraries.flatten().find_map(|library| {
        let packages = std::fs::read_dir(library.path().join("site-packages")).ok()?;
        packages.flatten().find_map(|package| {
            let name = package.file_name().into_string().ok()?;
            let version = name.strip_prefix("ironic-")?.strip_suffix(".dist-info")?;
            Some(version.to_owned())
        })
    })
}
