//! What is killed: the processes of an installation, each with a configuration
//! and a log of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use nix::sys::signal::Signal;

use crate::api::Api;
use crate::bench::serving::Serving;
use crate::bench::serving::free_address;
use crate::child;

/// One process.
#[derive(Debug)]
pub struct Program {
    binary: PathBuf,
    command: &'static str,
    host: String,
    folder: PathBuf,
    /// Where it is known to be up.
    address: SocketAddr,
    ready: &'static str,
    /// Base URL of its boot artefacts, if it has any.
    pub boots: Option<String>,
    serving: Option<Serving>,
}

impl Program {
    /// Its name among conductors.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Starts it.
    pub async fn start(&mut self) -> Result<()> {
        let mut command = child::command(&self.binary);
        command
            .arg(self.command)
            .arg("--config")
            .arg(self.folder.join("wrought.toml"))
            .env("WROUGHT_LOG", "info");
        let name = format!("wrought {} ({})", self.command, self.host);
        let log = self.log();
        let serving = Serving::start(&name, command, self.address, &log, self.ready).await?;
        self.serving = Some(serving);
        Ok(())
    }

    /// Ends it as a power cut would.
    pub async fn kill(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.kill().await;
        }
    }

    /// Ends it in order.
    pub async fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.stop().await;
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        if let Some(serving) = &self.serving {
            serving.signal(signal);
        }
    }

    /// Whether it was started and not ended by us.
    pub fn is_up(&self) -> bool {
        self.serving.is_some()
    }

    /// What it says.
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// How many of its lines have this text.
    pub fn says(&self, text: &str) -> usize {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        log.lines().filter(|line| line.contains(text)).count()
    }
}

/// An installation: one API, and conductors.
#[derive(Debug)]
pub struct Site {
    /// The processes; the first one has the API.
    pub programs: Vec<Program>,
    /// URL of the database, for readers.
    pub database: String,
    api: String,
    ca: PathBuf,
}

/// Two files that stand for a ramdisk.
fn ramdisk(folder: &Path) -> Result<PathBuf> {
    let ramdisk = folder.join("ramdisk");
    std::fs::create_dir_all(&ramdisk)?;
    for name in ["vmlinuz", "initramfs", "esp.img"] {
        std::fs::write(ramdisk.join(name), name)?;
    }
    Ok(ramdisk)
}

fn quote(path: &Path) -> String {
    format!("{:?}", path.display().to_string())
}

/// Settings that make an installation quick; the same for all processes.
const HASTE: &str = "[agent]\nheartbeat_interval = 1\n";

/// Settings by which dead conductors are found out soon.
const QUICK_DEATH: &str = "keepalive_interval = 2\ndead_after = 10\n";

impl Site {
    /// `wrought serve` on SQLite, with everything in `work`; nothing is started
    /// yet.
    pub fn serve(binary: &Path, work: &Path) -> Result<Self> {
        let (address, boot) = (free_address()?, free_address()?);
        let state = work.join("state");
        let config = format!(
            "host = \"one\"\nlisten = \"{address}\"\nauth = \"none\"\nstate_dir = {state}\n\
             [boot]\nlisten = \"{boot}\"\nramdisk_dir = {ramdisk}\n{HASTE}\
             [conductor]\ncheck_interval = 5\n",
            state = quote(&state),
            ramdisk = quote(&ramdisk(work)?),
        );
        std::fs::write(work.join("wrought.toml"), config).context("writing wrought.toml")?;
        Ok(Self {
            programs: vec![Program {
                binary: binary.to_owned(),
                command: "serve",
                host: "one".to_owned(),
                folder: work.to_owned(),
                address,
                ready: "API on",
                boots: Some(format!("http://{boot}")),
                serving: None,
            }],
            database: format!("sqlite:{}", state.join("wrought.db").display()),
            api: format!("https://{address}"),
            ca: state.join("ca/ca.pem"),
        })
    }

    /// `wrought api` and so many `wrought conductor` on the database with that
    /// URL, with everything else in `work`; nothing is started yet.
    pub fn split(binary: &Path, work: &Path, database: &str, conductors: usize) -> Result<Self> {
        let address = free_address()?;
        let (api, ca) = (format!("https://{address}"), work.join("ca"));
        let mut init = std::process::Command::new(binary);
        let made = init.args(["ca", "init", "--ca-dir"]).arg(&ca).output();
        let made = made.context("starting `wrought ca init`")?;
        let said = String::from_utf8_lossy(&made.stderr);
        ensure!(made.status.success(), "`wrought ca init`: {}", said.trim());
        let ramdisk = ramdisk(work)?;
        let common = |host: &str| {
            format!(
                "host = \"{host}\"\ndatabase = \"{database}\"\nca_dir = {}\nstate_dir = {}\n",
                quote(&ca),
                quote(&work.join(host).join("state")),
            )
        };
        let program = |host: &str, command, address, ready, config: String| {
            let folder = work.join(host);
            std::fs::create_dir_all(&folder)?;
            std::fs::write(folder.join("wrought.toml"), config)?;
            Ok::<_, anyhow::Error>(Program {
                binary: binary.to_owned(),
                command,
                host: host.to_owned(),
                folder,
                address,
                ready,
                boots: None,
                serving: None,
            })
        };
        // Who takes whom for dead must be the same for all.
        let config = format!(
            "{}listen = \"{address}\"\nauth = \"none\"\n[conductor]\n{QUICK_DEATH}",
            common("api")
        );
        let mut programs = vec![program("api", "api", address, "API on", config)?];
        for number in 0..conductors {
            let host = format!("conductor-{number}");
            let (calls, boot) = (free_address()?, free_address()?);
            let config = format!(
                "{}public_endpoint = \"{api}\"\n[rpc]\nlisten = \"{calls}\"\n\
                 [boot]\nlisten = \"{boot}\"\nramdisk_dir = {}\n{HASTE}\
                 [conductor]\ncheck_interval = 5\n{QUICK_DEATH}",
                common(&host),
                quote(&ramdisk),
            );
            let mut program = program(&host, "conductor", calls, "takes calls at", config)?;
            program.boots = Some(format!("http://{boot}"));
            programs.push(program);
        }
        Ok(Self {
            programs,
            database: database.to_owned(),
            api,
            ca: ca.join("ca.pem"),
        })
    }

    /// Adds lines to the `[conductor]` of all of it, before its start.
    pub fn configure(&self, lines: &str) -> Result<()> {
        for program in self.programs.iter().filter(|p| p.boots.is_some()) {
            let path = program.folder.join("wrought.toml");
            let mut text = std::fs::read_to_string(&path)?;
            text.push_str(lines);
            std::fs::write(&path, text)?;
        }
        Ok(())
    }

    /// Base URL of the API.
    pub fn url(&self) -> &str {
        &self.api
    }

    /// Starts all of it that does not run.
    pub async fn start(&mut self) -> Result<()> {
        for program in self.programs.iter_mut().filter(|p| !p.is_up()) {
            program.start().await?;
        }
        Ok(())
    }

    /// Ends all of it in order.
    pub async fn stop(&mut self) {
        for program in self.programs.iter_mut().rev() {
            program.stop().await;
        }
    }

    /// A client of the API, once that has been started for the first time.
    pub fn api(&self) -> Result<Api> {
        Api::new(&self.api, &self.ca, None)
    }

    /// The CA's certificate.
    pub fn ca(&self) -> &Path {
        &self.ca
    }

    /// Where machines find boot artefacts.
    pub fn boots(&self) -> Vec<String> {
        let boots = self.programs.iter().filter_map(|p| p.boots.clone());
        boots.collect()
    }

    /// The program of a conductor.
    pub fn conductor(&mut self, host: &str) -> Result<&mut Program> {
        let found = self.programs.iter_mut().find(|p| p.host == host);
        found.with_context(|| format!("no conductor is named {host:?}"))
    }
}
