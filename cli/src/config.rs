//! Settings of `wrought serve`, `wrought api` and `wrought conductor`: the TOML
//! file, overridden by the command line. One file will do for all three.

pub(crate) mod options;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;
use anyhow::Result;
use serde::Deserialize;
use wrought_api::Network;

use self::options::Options;
use crate::private;
use crate::serve::tls::Given;

/// The largest configuration file that is read.
const FILE_LIMIT: u64 = 1024 * 1024;

/// Which parts a process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Both in one, with a database of its own.
    Serve,
    /// The API, which calls conductors.
    Api,
    /// A conductor, which the API calls.
    Conductor,
}

impl Form {
    /// Whether it has the API.
    pub(crate) fn has_api(self) -> bool {
        self != Self::Conductor
    }

    /// Whether it has a conductor.
    pub(crate) fn has_conductor(self) -> bool {
        self != Self::Api
    }

    /// The command, which is also the name of a process's own folder.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Api => "api",
            Self::Conductor => "conductor",
        }
    }
}

/// The file as it is written; every key is optional.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    state_dir: Option<PathBuf>,
    listen: Option<SocketAddr>,
    http: Option<bool>,
    auth: Option<AuthChoice>,
    database: Option<String>,
    ca_dir: Option<PathBuf>,
    host: Option<String>,
    public_endpoint: Option<String>,
    trusted_proxies: Vec<String>,
    tls: Option<Given>,
    ramdisk: Ramdisk,
    rpc: Rpc,
    metrics: Metrics,
    drivers: wrought_conductor::config::Drivers,
    boot: wrought_conductor::config::Boot,
    conductor: wrought_conductor::config::Conductor,
    agent: wrought_conductor::config::Agent,
}

/// Where ramdisks find the API: `lookup`, `heartbeat` and
/// `continue_inspection`, which nobody has to authenticate for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Ramdisk {
    /// False: nowhere, they are refused with 403.
    pub(crate) enabled: bool,
    /// A listener of their own; then they are refused at the API's.
    pub(crate) listen: Option<SocketAddr>,
    /// The URL that ramdisks are told; without it that of their listener, else
    /// `public_endpoint`.
    pub(crate) url: Option<String>,
}

impl Default for Ramdisk {
    fn default() -> Self {
        Self {
            enabled: true,
            listen: None,
            url: None,
        }
    }
}

/// How the API calls conductors of other processes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Rpc {
    /// Where a conductor listens for calls.
    pub(crate) listen: SocketAddr,
    /// The URL that the API reaches it by; without it the address that it
    /// listens on, or its host name where that is a wildcard.
    pub(crate) url: Option<String>,
    /// Seconds that a call may take.
    pub(crate) timeout: u64,
}

impl Default for Rpc {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 8089)),
            url: None,
            timeout: 60,
        }
    }
}

/// The figures of a process that has a conductor, for who does not ask the API
/// for them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Metrics {
    /// A plain HTTP listener that has nothing but `/metrics`, and asks nobody
    /// who they are; none: off.
    pub(crate) listen: Option<SocketAddr>,
}

/// Who may use the API.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum AuthChoice {
    /// Everybody.
    None,
    /// Basic authentication against a password file made by ourselves.
    Generated,
    /// Basic authentication against this file.
    Basic(PathBuf),
}

impl FromStr for AuthChoice {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            None if text == "basic" => Ok(Self::Generated),
            Some(("basic", file)) if !file.is_empty() => Ok(Self::Basic(file.into())),
            _ => Err(format!(
                "{text:?} is none of \"none\", \"basic\" and \"basic:FILE\""
            )),
        }
    }
}

impl TryFrom<String> for AuthChoice {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        text.parse()
    }
}

/// All that is decided before anything is opened.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) form: Form,
    pub(crate) state_dir: PathBuf,
    pub(crate) listen: SocketAddr,
    pub(crate) http: bool,
    pub(crate) auth: AuthChoice,
    pub(crate) database: String,
    pub(crate) ca_dir: PathBuf,
    pub(crate) host: String,
    pub(crate) public_endpoint: Option<String>,
    pub(crate) trusted_proxies: Vec<Network>,
    /// The API's certificate; none: one by our own CA.
    pub(crate) tls: Option<Given>,
    pub(crate) ramdisk: Ramdisk,
    pub(crate) rpc: Rpc,
    pub(crate) metrics: Metrics,
    pub(crate) drivers: wrought_conductor::config::Drivers,
    pub(crate) boot: wrought_conductor::config::Boot,
    pub(crate) conductor: wrought_conductor::config::Conductor,
    pub(crate) agent: wrought_conductor::config::Agent,
}

impl Settings {
    /// Reads the file, puts the command line over it, fills the defaults and
    /// refuses what would be unsafe.
    pub(crate) fn load(form: Form, options: impl Into<Options>) -> Result<Self> {
        let Options {
            common,
            front,
            back,
            calls,
        } = options.into();
        let file = match &common.config {
            Some(path) => read(path)?,
            None => File::default(),
        };
        let state_dir = common
            .state_dir
            .or(file.state_dir)
            .unwrap_or_else(|| PathBuf::from("/var/lib/wrought"));
        let mut boot = file.boot;
        boot.listen = back.boot_listen.or(boot.listen);
        let mut rpc = file.rpc;
        rpc.listen = calls.rpc_listen.unwrap_or(rpc.listen);
        let host = match calls.host.or(file.host) {
            Some(host) => host,
            None => own_host_name()?,
        };
        let settings = Self {
            form,
            listen: front
                .listen
                .or(file.listen)
                .unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 6385))),
            http: front.http || file.http.unwrap_or(false),
            auth: front.auth.or(file.auth).unwrap_or(AuthChoice::Generated),
            database: common
                .database
                .or(file.database)
                .unwrap_or_else(|| format!("sqlite:{}", state_dir.join("wrought.db").display())),
            ca_dir: common
                .ca_dir
                .or(file.ca_dir)
                .unwrap_or_else(|| state_dir.join("ca")),
            state_dir,
            host,
            public_endpoint: file.public_endpoint,
            trusted_proxies: networks(&file.trusted_proxies)?,
            tls: file.tls,
            ramdisk: file.ramdisk,
            rpc,
            metrics: file.metrics,
            drivers: file.drivers,
            boot,
            conductor: file.conductor,
            agent: file.agent,
        };
        settings.check()?;
        Ok(settings)
    }

    /// Folder of this process alone: the API and a conductor beside it share
    /// the state folder.
    pub(crate) fn own_dir(&self) -> PathBuf {
        match self.form {
            Form::Serve => self.state_dir.clone(),
            form => self.state_dir.join(form.name()),
        }
    }

    /// How the API is spoken to.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.http { "http" } else { "https" }
    }

    fn check(&self) -> Result<()> {
        let name = self.form.name();
        anyhow::ensure!(
            self.form == Form::Serve || !self.database.starts_with("sqlite:"),
            "`wrought {name}` shares its database with other processes, and an SQLite database \
             serves one: give --database postgres://USER:PASSWORD@HOST/DATABASE, or run `wrought \
             serve`, which is API and conductor in one"
        );
        anyhow::ensure!(
            self.rpc.timeout > 0,
            "timeout of [rpc] is 0 seconds: no call could be answered"
        );
        if self.form.has_api() {
            self.check_front()?;
        }
        if self.form.has_conductor() {
            self.check_back()?;
        }
        let urls = [
            ("public_endpoint", &self.public_endpoint),
            ("url of [ramdisk]", &self.ramdisk.url),
            ("url of [rpc]", &self.rpc.url),
        ];
        for (name, url) in urls {
            let Some(url) = url else { continue };
            let good = url.split_once("://").is_some_and(|(scheme, rest)| {
                matches!(scheme, "http" | "https") && !rest.is_empty()
            });
            anyhow::ensure!(
                good,
                "{name} {url:?} is no URL such as https://192.0.2.1:6385"
            );
        }
        Ok(())
    }

    fn check_front(&self) -> Result<()> {
        anyhow::ensure!(
            !self.http || self.auth == AuthChoice::None || self.listen.ip().is_loopback(),
            "basic authentication over plain HTTP would send passwords in the clear from {}: \
             leave out --http, or listen on a loopback address, or use --auth none",
            self.listen
        );
        anyhow::ensure!(
            !self.http || self.tls.is_none(),
            "plain HTTP has no certificate: leave out --http, or [tls]"
        );
        anyhow::ensure!(
            self.tls.is_none() || !self.ramdisk.enabled || self.ramdisk.listen.is_some(),
            "ramdisks trust this installation's CA alone, so that they do not take the certificate \
             of [tls]: give them a listener of their own (listen in [ramdisk]), or none (enabled = \
             false)"
        );
        anyhow::ensure!(
            self.ramdisk.enabled || self.ramdisk.listen.is_none(),
            "[ramdisk] is not enabled, so that listen has no use there: leave one of them out"
        );
        Ok(())
    }

    fn check_back(&self) -> Result<()> {
        let inspection = self.conductor.inspection.check();
        inspection.map_err(|problem| anyhow::anyhow!("[conductor.inspection] {problem}"))?;
        // A conductor alone does not know where the API listens.
        let listens = match self.form {
            Form::Serve => Some(self.ramdisk.listen.unwrap_or(self.listen)),
            _ => None,
        };
        let told = listens.is_some_and(|listen| !listen.ip().is_unspecified())
            || self.ramdisk.url.is_some()
            || (self.public_endpoint.is_some() && self.ramdisk.listen.is_none());
        anyhow::ensure!(
            self.boot.listen.is_none() || told,
            "machines that boot from the network must be told where the API is: set \
             public_endpoint (or url in [ramdisk]) in the configuration{}",
            match listens {
                Some(listen) => format!(", or listen on one address instead of {listen}"),
                None => String::new(),
            }
        );
        if let (Some(listen), None) = (self.boot.listen, &self.boot.url) {
            anyhow::ensure!(
                !listen.ip().is_unspecified(),
                "machines must be told where their boot artefacts are: set url in [boot], or \
                 serve them on one address instead of {listen}"
            );
        }
        let https = |url: &String| url.starts_with("https://");
        anyhow::ensure!(
            self.rpc.url.as_ref().is_none_or(https),
            "url of [rpc] must begin with https://: API and conductors know each other by their \
             certificates"
        );
        Ok(())
    }
}

fn networks(texts: &[String]) -> Result<Vec<Network>> {
    let parsed = texts
        .iter()
        .map(|text| text.parse().map_err(anyhow::Error::new));
    parsed
        .collect::<Result<Vec<_>>>()
        .context("in trusted_proxies of the configuration")
}

fn read(path: &Path) -> Result<File> {
    let text = private::read(path, FILE_LIMIT)?;
    toml::from_str(&text).with_context(|| format!("in the configuration file {}", path.display()))
}

/// The machine's host name.
fn own_host_name() -> Result<String> {
    let name = nix::unistd::gethostname().context("asking for the host name")?;
    let name = name.into_string().ok().filter(|name| !name.is_empty());
    name.context("the host has no name that is text: set host in the configuration")
}
