//! `wrought serve` as a child, with a configuration of its own.

use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use crate::api::Api;
use crate::child;
use crate::child::Daemon;
use crate::netns;
use crate::paths::Paths;
use crate::rundir::RunDir;
use crate::running;

/// Port of the API, in the namespace.
const API_PORT: u16 = 6385;
/// Port of the boot artefacts, in the namespace.
const BOOT_PORT: u16 = 8080;
/// The account that the harness uses.
pub const USER: &str = "admin";
/// How long the server may take to listen.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A running server.
#[derive(Debug)]
pub struct Server {
    daemon: Daemon,
    password: String,
    ca: PathBuf,
}

/// Where the API listens inside the namespace.
pub fn api_address() -> SocketAddr {
    (netns::HOST, API_PORT).into()
}

/// Base URL of the boot artefacts inside the namespace.
pub fn boot_url() -> String {
    format!("http://{}:{BOOT_PORT}", netns::HOST)
}

/// The address of the script that iPXE is sent to.
pub fn ipxe_script() -> String {
    format!("{}/boot.ipxe", boot_url())
}

impl Server {
    /// Starts the server and waits until it answers. `more` is appended to
    /// the configuration.
    pub async fn start(paths: &Paths, run: &RunDir, more: &str) -> Result<Self> {
        let state = run.scratch_dir("state")?;
        let password = crate::random_hex(12);
        let accounts = run.scratch("htpasswd");
        write_secret(
            &accounts,
            &format!("{USER}:{}\n", bcrypt::hash(&password, 4)?),
        )?;
        let config = run.scratch("wrought.toml");
        std::fs::write(
            &config,
            configuration(&state, &accounts, &paths.ramdisk, more),
        )?;

        let log = run.log("server.log");
        let mut command = child::command(paths.binary("wrought")?);
        command.arg("serve").arg("--config").arg(&config);
        let daemon = Daemon::start("wrought serve", command, &log)?;
        let ca = state.join("ca").join("ca.pem");
        let server = Self {
            daemon,
            password,
            ca,
        };
        tokio::select! {
            ready = tokio::time::timeout(START_LIMIT, server.answers()) => {
                ready.with_context(|| format!(
                    "`wrought serve` did not answer within {} s; see {}",
                    START_LIMIT.as_secs(), log.display(),
                ))?;
            }
            _ = server.daemon.wait() => {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                let last = crate::serial::tail(&said, 4).join(" | ");
                bail!("`wrought serve` ended at once: {last} (see {})", log.display());
            }
        }
        Ok(server)
    }

    /// A client with the harness's account.
    pub fn api(&self) -> Result<Api> {
        let account = (USER.to_owned(), self.password.clone());
        Api::new(
            &format!("https://{}", api_address()),
            &self.ca,
            Some(account),
        )
    }

    /// The CA's certificate.
    pub fn ca(&self) -> &Path {
        &self.ca
    }

    /// The password of [`USER`].
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Peak resident memory so far in bytes (`VmHWM`).
    pub fn peak_rss(&self) -> Option<u64> {
        running::bytes(self.daemon.pid().as_raw(), "VmHWM:")
    }

    /// Ends it in an orderly way.
    pub async fn stop(&self) {
        self.daemon.stop(Duration::from_secs(10)).await;
    }

    async fn answers(&self) {
        loop {
            if let Ok(api) = self.api()
                && api.get("/v1").await.is_ok()
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The image server is next door: what does not answer at once never will.
const IMPATIENT: &str = "ipa-image-download-connection-retry-interval=1";

fn configuration(state: &Path, accounts: &Path, ramdisk: &Path, more: &str) -> String {
    let host = netns::HOST;
    let quote = |path: &Path| toml_string(&path.display().to_string());
    format!(
        "state_dir = {state}\n\
         listen = \"{any}:{API_PORT}\"\n\
         auth = {auth}\n\
         host = \"harness\"\n\
         public_endpoint = \"https://{host}:{API_PORT}\"\n\
         {more}\n\
         [boot]\n\
         listen = \"{host}:{BOOT_PORT}\"\n\
         ramdisk_dir = {ramdisk}\n\
         extra_kernel_params = \"{IMPATIENT}\"\n\
         [agent]\n\
         heartbeat_interval = 5\n\
         # Random data would fill the host's disk with what is erased.\n\
         [conductor.erase]\n\
         shred_random_overwrite_iterations = 0\n",
        state = quote(state),
        auth = toml_string(&format!("basic:{}", accounts.display())),
        ramdisk = quote(ramdisk),
        any = Ipv4Addr::UNSPECIFIED,
    )
}

/// A TOML basic string.
fn toml_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Writes a file that only its owner reads.
pub fn write_secret(path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("creating {}", path.display()))?;
    Ok(file.write_all(text.as_bytes())?)
}
