//! `wrought-agent [run]`.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use clap::Args;
use tokio::runtime::Runtime;
use tracing::error;
use tracing::info;

use super::UNAVAILABLE;
use super::USAGE;
use super::fail;
use crate::clock;
use crate::command::CommandFailure;
use crate::init;
use crate::init::banner;
use crate::init::banner::Board;
use crate::logging;
use crate::logging::Clock;
use crate::net;
use crate::params::Params;
use crate::params::Trust;
use crate::params::Words;
use crate::params::vmedia;
use crate::run::Config;
use crate::run::run;
use crate::run::run_until_told;
use crate::shutdown::Goal;

/// Bytes of a CA file.
const CA_LIMIT: u64 = 1 << 20;
/// Threads for what never blocks; commands have their own.
const WORKERS: usize = 2;
/// Time to read an error before PID 1 restarts the machine.
const READING_TIME: Duration = Duration::from_secs(30);

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Args)]
pub(super) struct Run {
    /// Address of the API, such as https://192.0.2.1:6385.
    #[arg(long, value_name = "URL")]
    api_url: Option<String>,
    /// Where the command server listens; port 0 takes any free one.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// A parameter as on the kernel command line, repeatable.
    #[arg(long = "param", value_name = "KEY=VALUE", value_parser = key_value)]
    params: Vec<String>,
    /// The only disks that may be touched, repeatable.
    #[arg(long, value_name = "PATH")]
    only_disk: Vec<PathBuf>,
}

fn key_value(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((key, _)) if !key.is_empty() => Ok(text.to_owned()),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

impl Run {
    fn words(&self) -> Words {
        let mut words = Words::default();
        self.params.iter().for_each(|word| words.add(word));
        if let Some(url) = &self.api_url {
            words.add(&format!("ipa-api-url={url}"));
        }
        if let Some(listen) = self.listen {
            words.add(&format!("ipa-listen-host={}", listen.ip()));
            words.add(&format!("ipa-listen-port={}", listen.port()));
        }
        words
    }

    pub(super) fn main(self) -> ExitCode {
        let params = match Params::from_words(self.words())
            .map_err(Into::into)
            .and_then(with_ca_file)
        {
            Ok(params) => params,
            Err(error) => return fail(&*error, USAGE),
        };
        let ring = logging::init(Clock::Since(Instant::now()), params.debug);
        let runtime = match runtime() {
            Ok(runtime) => runtime,
            Err(error) => return fail(&error, UNAVAILABLE),
        };
        let config = Config {
            params,
            only_disk: self.only_disk,
            is_init: false,
            ring,
            board: Board::default(),
        };
        let result = runtime.block_on(run(config));
        // A command that still runs must not hold the end up.
        runtime.shutdown_background();
        match result {
            Ok(_) => ExitCode::SUCCESS,
            Err(error) => fail(&error, UNAVAILABLE),
        }
    }
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
}

/// Reads the CA that `ipa-cafile` names, unless something else says what to
/// trust, and the image servers' of `ipa-image-cafile`.
fn with_ca_file(mut params: Params) -> Result<Params, Failure> {
    if params.trust == Trust::Nothing
        && let Some(pem) = ca_file(&params, "ipa-cafile")?
    {
        params.trust = Trust::Pem(pem);
    }
    if let Some(pem) = ca_file(&params, "ipa-image-cafile")? {
        params.image_ca = Some(params.image_ca.unwrap_or_default() + &pem);
    }
    Ok(params)
}

fn ca_file(params: &Params, key: &str) -> Result<Option<String>, Failure> {
    let Some(path) = params.get(key) else {
        return Ok(None);
    };
    let mut pem = String::new();
    File::open(path)
        .and_then(|file| file.take(CA_LIMIT).read_to_string(&mut pem))
        .map_err(|error| format!("parameter {key}={path}: cannot be read: {error}"))?;
    Ok(Some(pem))
}

/// The agent that PID 1 has started. It ends only with the machine; an exit
/// means an error, and PID 1 restarts the machine then.
pub(super) fn as_child_of_init() -> ExitCode {
    let ring = logging::init(Clock::Boot, false);
    info!("agent: wrought {} started", env!("CARGO_PKG_VERSION"));
    let result = init_params().and_then(|params| {
        let runtime = runtime()?;
        let goal = runtime.block_on(async {
            let board = Board::default();
            let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
            tokio::spawn(board.clone().show(banner::consoles(&line)));
            net::bring_up::bring_up(&params).await?;
            clock::set(&params).await;
            let config = || Config {
                params: params.clone(),
                only_disk: Vec::new(),
                is_init: true,
                ring: Arc::clone(&ring),
                board: board.clone(),
            };
            Ok::<Goal, Failure>(run_until_told(config).await)
        })?;
        runtime.shutdown_background();
        Ok(goal)
    });
    match result {
        Ok(goal) => init::end(goal),
        Err(problem) => {
            error!("agent: {}", CommandFailure::chain(&*problem));
            std::thread::sleep(READING_TIME);
            ExitCode::from(UNAVAILABLE)
        }
    }
}

/// The kernel command line, and what virtual media adds to it.
fn init_params() -> Result<Params, Failure> {
    let line = std::fs::read_to_string("/proc/cmdline")
        .map_err(|error| format!("/proc/cmdline cannot be read: {error}"))?;
    let mut words = Words::from_cmdline(&line);
    let (mut media_trust, mut image_ca, mut network_data) = (None, None, None);
    if words.get("boot_method") == Some("vmedia") {
        let media = vmedia::wait()?;
        words.merge(media.words);
        media_trust = media.trust;
        image_ca = media.image_ca;
        network_data = media.network_data;
    }
    let mut params = Params::from_words(words)?;
    params.image_ca = image_ca;
    params.network_data = network_data;
    if let Some(trust) = media_trust
        && params.trust != Trust::Insecure
    {
        params.trust = trust;
    }
    with_ca_file(params)
}
