//! The servers that are measured: processes that die with the harness, and
//! what the kernel accounts for them.

use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use nix::sys::signal::Signal;
use tokio::process::Command;

use super::load::Target;
use crate::api::Api;
use crate::child;
use crate::child::Daemon;
use crate::running;

/// How long a server may take to listen.
const START: Duration = Duration::from_secs(90);
/// How long it may take to end in order.
const STOP: Duration = Duration::from_secs(30);

/// A port of loopback that is free now.
pub fn free_address() -> Result<SocketAddr> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// A running server.
#[derive(Debug)]
pub struct Serving {
    daemon: Daemon,
    log: PathBuf,
}

impl Serving {
    /// Starts a server with its output in `log` and waits until it listens
    /// and has said `ready`.
    pub async fn start(
        name: &str,
        command: Command,
        address: SocketAddr,
        log: &Path,
        ready: &str,
    ) -> Result<Self> {
        // What an earlier process said is not this one's word.
        let said = std::fs::metadata(log).map_or(0, |log| log.len());
        let serving = Self {
            daemon: Daemon::start(name, command, log)?,
            log: log.to_owned(),
        };
        let until = Instant::now() + START;
        while !serving.has_said(said, ready)
            || tokio::net::TcpStream::connect(address).await.is_err()
        {
            if let Some(status) = serving.daemon.status() {
                bail!(
                    "{name} ended at its start with {status}: {}",
                    serving.said()
                );
            }
            if Instant::now() > until {
                bail!(
                    "{name} did not listen on {address} within {START:?}: {}",
                    serving.said()
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(serving)
    }

    /// Whether the log has `text` after its first `from` bytes.
    fn has_said(&self, from: u64, text: &str) -> bool {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(log.len());
        String::from_utf8_lossy(&log[from..]).contains(text)
    }

    fn said(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        crate::serial::tail(&text, 4).join(" | ")
    }

    /// Ends it in order.
    pub async fn stop(self) {
        self.daemon.stop(STOP).await;
    }

    /// Ends it as a power cut would.
    pub async fn kill(self) {
        self.daemon.signal(Signal::SIGKILL);
        self.daemon.wait().await;
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        self.daemon.signal(signal);
    }

    /// Resident memory of it and its children now, bytes.
    pub fn rss(&self) -> Result<u64> {
        let mut sum = 0;
        for pid in running::tree(self.daemon.pid().as_raw()) {
            sum += running::bytes(pid, "VmRSS:").unwrap_or(0);
        }
        anyhow::ensure!(sum > 0, "the server is gone: {}", self.said());
        Ok(sum)
    }

    /// Peak resident memory of the process itself so far, bytes.
    pub fn peak_rss(&self) -> Result<u64> {
        running::bytes(self.daemon.pid().as_raw(), "VmHWM:").context("no VmHWM")
    }

    /// Processor time, user and system, that the process has used so far.
    pub fn cpu(&self) -> Result<Duration> {
        running::cpu(self.daemon.pid().as_raw())
    }
}

/// `wrought serve` over plain HTTP or as it serves by default.
#[derive(Debug)]
pub struct Wrought {
    binary: PathBuf,
    work: PathBuf,
    /// Where it listens.
    pub address: SocketAddr,
    https: bool,
    serving: Option<Serving>,
}

impl Wrought {
    /// Prepares a server whose files are in `work`; nothing is started yet.
    pub fn new(binary: &Path, work: &Path, https: bool) -> Result<Self> {
        Self::configured(binary, work, https, "auth = \"none\"\n")
    }

    /// The same with more lines of configuration, of which one says who is let
    /// in.
    pub fn configured(binary: &Path, work: &Path, https: bool, more: &str) -> Result<Self> {
        let wrought = Self {
            binary: binary.to_owned(),
            work: work.to_owned(),
            address: free_address()?,
            https,
            serving: None,
        };
        // The simulated agents of a comparison over plain HTTP have no TLS.
        let config = format!(
            "listen = \"{}\"\nhttp = {}\nstate_dir = {:?}\n{more}\
             [conductor]\nrequire_agent_tls = {https}\n",
            wrought.address,
            !https,
            work.join("state"),
        );
        std::fs::write(work.join("wrought.toml"), config).context("writing wrought.toml")?;
        Ok(wrought)
    }

    /// Starts it.
    pub async fn start(&mut self) -> Result<()> {
        let mut command = child::command(&self.binary);
        command
            .arg("serve")
            .arg("--config")
            .arg(self.work.join("wrought.toml"))
            .env("WROUGHT_LOG", "warn");
        let log = self.work.join("wrought.log");
        let serving =
            Serving::start("wrought serve", command, self.address, &log, "API on").await?;
        self.serving = Some(serving);
        Ok(())
    }

    /// The running process.
    pub fn serving(&self) -> Result<&Serving> {
        self.serving.as_ref().context("the server does not run")
    }

    /// Ends it in order; the database is then in one file.
    pub async fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.stop().await;
        }
    }

    /// Ends it as a power cut would; it can be started again.
    pub async fn kill(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.kill().await;
        }
    }

    /// A client of its API.
    pub fn api(&self) -> Result<Api> {
        if self.https {
            let ca = self.work.join("state/ca/ca.pem");
            return Api::new(&format!("https://{}", self.address), &ca, None);
        }
        Api::plain(&format!("http://{}", self.address))
    }

    /// Where load goes.
    pub fn target(&self) -> Result<Target> {
        let tls = match self.https {
            true => Some(super::load::knowing(&self.work.join("state/server.pem"))?),
            false => None,
        };
        let address = self.address;
        Ok(Target { address, tls })
    }

    /// The URL of its SQLite database.
    pub fn database(&self) -> String {
        format!("sqlite:{}", self.work.join("state/wrought.db").display())
    }
}
