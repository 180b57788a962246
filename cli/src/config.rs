//! Settings of `wrought serve`: the TOML file, overridden by the command line.

use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;
use anyhow::Result;
use clap::Args;
use serde::Deserialize;
use wrought_api::Network;

use crate::private;

/// The largest configuration file that is read.
const FILE_LIMIT: u64 = 1024 * 1024;

/// `wrought serve`: the server
#[derive(Debug, Default, Args)]
pub(crate) struct Options {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder for database, CA and passwords [default: /var/lib/wrought]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Where the API listens [default: 0.0.0.0:6385]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Serve the API as plain HTTP instead of HTTPS
    #[arg(long)]
    http: bool,
    /// Where boot artefacts are served as plain HTTP [default: off]
    #[arg(long, value_name = "ADDR:PORT")]
    boot_listen: Option<SocketAddr>,
    /// Who may use the API: `none`, or `basic:FILE` with FILE in htpasswd form
    /// (bcrypt) [default: basic, with a password made at the first start]
    #[arg(long, value_name = "none|basic:FILE")]
    auth: Option<AuthChoice>,
    /// Database [default: sqlite: wrought.db in the state folder]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Folder of the CA [default: ca in the state folder]
    #[arg(long, value_name = "DIR")]
    ca_dir: Option<PathBuf>,
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
    ramdisk: Ramdisk,
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
    pub(crate) state_dir: PathBuf,
    pub(crate) listen: SocketAddr,
    pub(crate) http: bool,
    pub(crate) auth: AuthChoice,
    pub(crate) database: String,
    pub(crate) ca_dir: PathBuf,
    pub(crate) host: String,
    pub(crate) public_endpoint: Option<String>,
    pub(crate) trusted_proxies: Vec<Network>,
    pub(crate) ramdisk: Ramdisk,
    pub(crate) drivers: wrought_conductor::config::Drivers,
    pub(crate) boot: wrought_conductor::config::Boot,
    pub(crate) conductor: wrought_conductor::config::Conductor,
    pub(crate) agent: wrought_conductor::config::Agent,
}

impl Settings {
    /// Reads the file, puts the command line over it, fills the defaults and
    /// refuses what would be unsafe.
    pub(crate) fn load(options: Options) -> Result<Self> {
        let file = match &options.config {
            Some(path) => read(path)?,
            None => File::default(),
        };
        let state_dir = options
            .state_dir
            .or(file.state_dir)
            .unwrap_or_else(|| PathBuf::from("/var/lib/wrought"));
        let mut boot = file.boot;
        boot.listen = options.boot_listen.or(boot.listen);
        let host = match file.host {
            Some(host) => host,
            None => own_host_name()?,
        };
        let settings = Self {
            listen: options
                .listen
                .or(file.listen)
                .unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 6385))),
            http: options.http || file.http.unwrap_or(false),
            auth: options.auth.or(file.auth).unwrap_or(AuthChoice::Generated),
            database: options
                .database
                .or(file.database)
                .unwrap_or_else(|| format!("sqlite:{}", state_dir.join("wrought.db").display())),
            ca_dir: options
                .ca_dir
                .or(file.ca_dir)
                .unwrap_or_else(|| state_dir.join("ca")),
            state_dir,
            host,
            public_endpoint: file.public_endpoint,
            trusted_proxies: networks(&file.trusted_proxies)?,
            ramdisk: file.ramdisk,
            drivers: file.drivers,
            boot,
            conductor: file.conductor,
            agent: file.agent,
        };
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<()> {
        anyhow::ensure!(
            !self.http || self.auth == AuthChoice::None || self.listen.ip().is_loopback(),
            "basic authentication over plain HTTP would send passwords in the clear from {}: \
             leave out --http, or listen on a loopback address, or use --auth none",
            self.listen
        );
        let told = match self.ramdisk.listen {
            Some(listen) => !listen.ip().is_unspecified(),
            None => self.public_endpoint.is_some() || !self.listen.ip().is_unspecified(),
        };
        anyhow::ensure!(
            self.boot.listen.is_none() || self.ramdisk.url.is_some() || told,
            "machines that boot from the network must be told where the API is: set \
             public_endpoint (or url in [ramdisk]) in the configuration, or listen on one address \
             instead of {}",
            self.ramdisk.listen.unwrap_or(self.listen)
        );
        anyhow::ensure!(
            self.ramdisk.enabled || self.ramdisk.listen.is_none(),
            "[ramdisk] is not enabled, so that listen has no use there: leave one of them out"
        );
        if let (Some(listen), None) = (self.boot.listen, &self.boot.url) {
            anyhow::ensure!(
                !listen.ip().is_unspecified(),
                "machines must be told where their boot artefacts are: set url in [boot], or \
                 serve them on one address instead of {listen}"
            );
        }
        let urls = [
            ("public_endpoint", &self.public_endpoint),
            ("url of [ramdisk]", &self.ramdisk.url),
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::AuthChoice;
    use super::Options;
    use super::Settings;

    fn load(text: &str, options: Options) -> anyhow::Result<Settings> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("wrought.toml");
        std::fs::write(&path, text).unwrap();
        Settings::load(Options {
            config: Some(path),
            ..options
        })
    }

    #[test]
    fn nothing_set_is_safe() {
        let settings = Settings::load(Options::default()).unwrap();
        assert_eq!(settings.listen.to_string(), "0.0.0.0:6385");
        assert!(!settings.http);
        assert_eq!(settings.auth, AuthChoice::Generated);
        assert_eq!(settings.database, "sqlite:/var/lib/wrought/wrought.db");
        assert_eq!(settings.ca_dir, Path::new("/var/lib/wrought/ca"));
        assert_eq!(settings.boot.listen, None);
        assert!(!settings.host.is_empty());
    }

    #[test]
    fn the_command_line_overrides_the_file() {
        let text = "state_dir = \"/a\"\nlisten = \"127.0.0.1:1\"\nauth = \"basic:/f\"\nhost = \"h\"\n\
                    [boot]\nlisten = \"192.0.2.1:80\"\nextra_kernel_params = \"x=y\"\n\
                    [conductor]\nworkers = 3\n[agent]\nheartbeat_interval = 5\n";
        let settings = load(text, Options::default()).unwrap();
        assert_eq!(settings.auth, AuthChoice::Basic("/f".into()));
        assert_eq!(settings.database, "sqlite:/a/wrought.db");
        assert_eq!(
            (settings.host.as_str(), settings.conductor.workers),
            ("h", 3)
        );
        assert_eq!(settings.agent.heartbeat_interval, 5);
        let options = Options {
            state_dir: Some("/b".into()),
            listen: Some("127.0.0.1:2".parse().unwrap()),
            boot_listen: Some("127.0.0.1:3".parse().unwrap()),
            auth: Some(AuthChoice::None),
            http: true,
            ..Options::default()
        };
        let settings = load(text, options).unwrap();
        assert_eq!(settings.ca_dir, Path::new("/b/ca"));
        assert_eq!(settings.listen.port(), 2);
        assert_eq!(settings.boot.listen.map(|listen| listen.port()), Some(3));
        assert_eq!(settings.boot.extra_kernel_params, "x=y");
        assert!(settings.http);
    }

    #[test]
    fn ramdisks_may_have_a_door_of_their_own() {
        assert!(Settings::load(Options::default()).unwrap().ramdisk.enabled);
        let text = "trusted_proxies = [\"192.0.2.0/24\"]\n[boot]\nlisten = \"192.0.2.1:80\"\n\
                    [ramdisk]\nlisten = \"192.0.2.1:6386\"\n";
        let settings = load(text, Options::default()).unwrap();
        assert_eq!(
            settings.ramdisk.listen.map(|listen| listen.port()),
            Some(6386)
        );
        assert_eq!(settings.trusted_proxies.len(), 1);
        let text = text.replace("listen = \"192.0.2.1:6386\"", "listen = \"0.0.0.0:6386\"");
        let error = load(&text, Options::default()).unwrap_err().to_string();
        assert!(error.contains("[ramdisk]"), "{error}");
    }

    #[test]
    fn errors_name_file_and_key() {
        for (text, key) in [
            ("lissten = \"x\"", "lissten"),
            ("[conductor]\nworker = 3", "worker"),
            ("auth = \"digest\"", "auth"),
            ("listen = \"localhost\"", "listen"),
            ("public_endpoint = \"192.0.2.1\"", "public_endpoint"),
            ("[ramdisk]\nurl = \"192.0.2.1\"", "[ramdisk]"),
            (
                "[ramdisk]\nlisten = \"192.0.2.1:1\"\nenabled = false",
                "[ramdisk]",
            ),
            ("trusted_proxies = [\"192.0.2.0/40\"]", "trusted_proxies"),
        ] {
            let error = format!("{:#}", load(text, Options::default()).unwrap_err());
            assert!(error.contains(key), "{error}");
            assert!(
                error.contains("wrought.toml")
                    || ["public_endpoint", "[ramdisk]", "trusted_proxies"].contains(&key),
                "{error}"
            );
        }
    }

    #[test]
    fn unsafe_or_useless_settings_are_refused() {
        let listen = |text: &str| Some(text.parse().unwrap());
        let clear = Options {
            http: true,
            ..Options::default()
        };
        let error = Settings::load(clear).unwrap_err().to_string();
        assert!(error.contains("passwords in the clear"), "{error}");
        let here = Options {
            http: true,
            listen: listen("127.0.0.1:1"),
            ..Options::default()
        };
        Settings::load(here).unwrap();
        let boot = Options {
            boot_listen: listen("192.0.2.1:80"),
            ..Options::default()
        };
        let error = Settings::load(boot).unwrap_err().to_string();
        assert!(error.contains("public_endpoint"), "{error}");
        let any = Options {
            listen: listen("192.0.2.1:1"),
            boot_listen: listen("0.0.0.0:80"),
            ..Options::default()
        };
        let error = Settings::load(any).unwrap_err().to_string();
        assert!(error.contains("set url in [boot]"), "{error}");
    }
}
