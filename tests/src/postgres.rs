//! A PostgreSQL server for one run: in a folder of its own, on a socket there,
//! gone with the harness.

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use nix::sys::signal::Signal;
use tokio::process::Command;

use crate::Unavailable;
use crate::child;
use crate::child::Daemon;

/// Where Debian has the servers, by version.
const SERVERS: &str = "/usr/lib/postgresql";
/// The user of its package: the server refuses to run as root.
const ACCOUNT: &str = "postgres";
/// Its superuser in the database, who needs no password on the socket.
const USER: &str = "wrought";
/// How long it may take to start.
const START: Duration = Duration::from_secs(60);
/// How long it may take to end.
const STOP: Duration = Duration::from_secs(30);

/// A running server.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    folder: PathBuf,
    durable: bool,
    daemon: Option<Daemon>,
}

impl Postgres {
    /// Makes and starts one. `durable` as it would be run; without it nothing
    /// that is written survives a power cut, which is enough for tests.
    pub async fn start(durable: bool) -> Result<Self> {
        let programs = programs()?;
        let folder = output(account("mktemp").args(["-d", "-t", "wrought-pg.XXXXXX"])).await?;
        let mut server = Self {
            programs,
            folder: PathBuf::from(folder.trim()),
            durable,
            daemon: None,
        };
        let data = server.folder.join("data");
        let mut init = account(server.programs.join("initdb"));
        init.args(["--no-sync", "-A", "trust", "-E", "UTF8", "-U", USER, "-D"]);
        output(init.arg(&data)).await?;
        server.launch().await?;
        Ok(server)
    }

    async fn launch(&mut self) -> Result<()> {
        let mut serve = account(self.programs.join("postgres"));
        serve.arg("-D").arg(self.folder.join("data"));
        serve.arg("-k").arg(&self.folder);
        let fsync = if self.durable {
            "fsync=on"
        } else {
            "fsync=off"
        };
        for setting in ["listen_addresses=", "max_connections=400", fsync] {
            serve.args(["-c", setting]);
        }
        let log = self.folder.join("log");
        self.daemon = Some(Daemon::start("postgres", serve, &log)?);
        self.wait(&log).await
    }

    /// Ends it in its fast way, which cuts all connections, and starts it again.
    pub async fn restart(&mut self) -> Result<()> {
        if let Some(daemon) = self.daemon.take() {
            daemon.signal(Signal::SIGINT);
            daemon.stop(STOP).await;
        }
        self.launch().await
    }

    async fn wait(&self, log: &Path) -> Result<()> {
        let until = Instant::now() + START;
        loop {
            let mut ask = child::command(self.programs.join("pg_isready"));
            if ask
                .arg("-q")
                .arg("-h")
                .arg(&self.folder)
                .status()
                .await?
                .success()
            {
                return Ok(());
            }
            let said = || std::fs::read_to_string(log).unwrap_or_default();
            ensure!(Instant::now() < until, "it did not start: {}", said());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The folder of its socket.
    pub fn socket(&self) -> &Path {
        &self.folder
    }

    /// Its socket, for those who pass connections on.
    pub fn socket_file(&self) -> PathBuf {
        self.folder.join(".s.PGSQL.5432")
    }

    /// URL of a database by way of a proxy before its socket.
    pub fn url_by(name: &str, proxy: std::net::SocketAddr) -> String {
        format!("postgres://{USER}@{proxy}/{name}?sslmode=disable")
    }

    /// Makes an empty database; gives its URL.
    pub async fn database(&self, name: &str) -> Result<String> {
        let mut make = child::command(self.programs.join("createdb"));
        make.arg("-h").arg(&self.folder).args(["-U", USER, name]);
        output(&mut make).await?;
        Ok(format!(
            "postgres://{USER}@localhost/{name}?host={}",
            self.folder.display()
        ))
    }

    /// Ends it in order.
    pub async fn stop(mut self) {
        if let Some(daemon) = self.daemon.take() {
            // Its fast shutdown: no waiting for clients.
            daemon.signal(Signal::SIGINT);
            daemon.stop(STOP).await;
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // The server goes with its daemon; what it still has open is in no
        // folder any more.
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            tracing::debug!(%error, "removing {}", self.folder.display());
        }
    }
}

/// Runs `work` with a server whose socket's folder is in the environment as
/// `variable`.
pub async fn with(variable: &str, program: &str, arguments: &[String]) -> Result<bool> {
    let server = Postgres::start(false).await?;
    let mut command = child::command(program);
    command.args(arguments).env(variable, server.socket());
    let status = command
        .status()
        .await
        .with_context(|| format!("starting {program}"))?;
    server.stop().await;
    Ok(status.success())
}

/// A command as the package's user, where this is root.
fn account(program: impl AsRef<std::ffi::OsStr>) -> Command {
    if !nix::unistd::geteuid().is_root() {
        return child::command(program);
    }
    let mut command = child::command("setpriv");
    // The kernel forgets who is to die with whom when the user changes.
    command
        .args(["--reuid", ACCOUNT, "--regid", ACCOUNT, "--clear-groups"])
        .args(["--pdeathsig", "KILL"])
        .arg(program)
        .current_dir("/");
    command
}

async fn output(command: &mut Command) -> Result<String> {
    let output = command.output().await?;
    ensure!(
        output.status.success(),
        "{:?}: {}",
        command.as_std(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The newest installed server's programs.
fn programs() -> Result<PathBuf> {
    let installed = std::fs::read_dir(SERVERS).into_iter().flatten().flatten();
    let newest = installed
        .filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .max();
    let (_, programs) = newest.ok_or_else(|| {
        Unavailable(format!(
            "no PostgreSQL in {SERVERS}: run `cargo xtask setup --all`"
        ))
    })?;
    Ok(programs)
}
