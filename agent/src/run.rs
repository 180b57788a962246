//! The agent's life: find out who we are, then serve commands until told to
//! end.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tracing::info;
use tracing::warn;
use wrought_wire::heartbeat::Heartbeat;
use wrought_wire::lookup::LookupAnswer;
use wrought_wire::lookup::LookupNode;
use wrought_wire::secret::Secret;

use crate::api::ApiError;
use crate::api::Beat;
use crate::api::Client;
use crate::api::Heartbeats;
use crate::api::LookupError;
use crate::api::Lookups;
use crate::api::Random;
use crate::command::Agent;
use crate::command::CommandFailure;
use crate::command::NodeCache;
use crate::command::Registry;
use crate::command::Runner;
use crate::ext::rescue;
use crate::init::banner::Board;
use crate::logging::Ring;
use crate::net;
use crate::net::mac::Mac;
use crate::net::source::NoSource;
use crate::params::Params;
use crate::server;
use crate::shutdown::Goal;
use crate::shutdown::Shutdown;
use crate::tls::Identity;
use crate::tls::TlsError;

/// How long the last answer and heartbeat get before the end.
const LAST_WORDS: Duration = Duration::from_millis(1500);
/// How long the API may take to tell of the node again.
const FRESH_LIMIT: Duration = Duration::from_secs(20);

/// The agent cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Talking to the API is not possible at all.
    #[error("cannot talk to the API")]
    Api(#[from] ApiError),
    /// The API does not tell us who we are.
    #[error("the lookup failed")]
    Lookup(#[from] LookupError),
    /// No address that the API could call.
    #[error("no address that the API could call back")]
    Address(#[from] NoSource),
    /// No certificate or TLS.
    #[error("cannot set up the command server's TLS")]
    Tls(#[from] TlsError),
    /// The port is taken, or the address is not ours.
    #[error(
        "cannot listen on {host} port {port}: choose others with ipa-listen-host and ipa-listen-port"
    )]
    Listen {
        /// Address asked for.
        host: IpAddr,
        /// Port asked for.
        port: u16,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// There is no NIC that a lookup could be made with.
    #[error(
        "no NIC with a MAC address was found: is its driver in the ramdisk? (wrought-addresses=MAC,… overrides)"
    )]
    NoNic,
}

/// What to run with.
#[derive(Debug)]
pub struct Config {
    /// All parameters.
    pub params: Params,
    /// The only disks that may be touched, when not empty.
    pub only_disk: Vec<PathBuf>,
    /// Whether the machine is ours: see [`Agent::is_init`].
    pub is_init: bool,
    /// The log so far.
    pub ring: Arc<Ring>,
    /// What a person at the machine is shown.
    pub board: Board,
}

/// Runs until a command asks for the end, and says which.
pub async fn run(config: Config) -> Result<Goal, RunError> {
    let Config {
        params,
        only_disk,
        is_init,
        ring,
        board,
    } = config;
    if rescue::is_left_alone() {
        info!("this machine was left to somebody who logs in: nothing is served");
        return std::future::pending().await;
    }
    let client = Arc::new(Client::new(&params)?);
    board.set_api(client.base_url());
    let (listener, port) = listen(&params).await?;
    let addresses = net::nic::lookup_addresses(&params);
    if addresses.is_empty() {
        return Err(RunError::NoNic);
    }
    let lookups = Lookups {
        client: &client,
        params: &params,
        addresses: &addresses,
        random: Random::default(),
    };
    let inspected = crate::inspection::run(&params, &only_disk, &ring).await;
    let (answer, token) = match inspected {
        // The token came with it, and is handed out once.
        Some(answer) => lookups.accept(answer)?,
        None => lookups.run().await?,
    };
    info!("lookup: this machine is node {}", answer.node.uuid);

    let host = match params.advertise_host {
        Some(host) => host,
        None => net::source::toward(client.base_url()).await?,
    };
    let identity = Identity::generate(host)?;
    let port = params.advertise_port.unwrap_or(port);
    let memory_budget = params.memory_budget(crate::system::total_ram_bytes());
    info!("memory: {} MiB for the data path", memory_budget >> 20);
    let agent = Arc::new(Agent {
        memory_budget,
        params,
        only_disk,
        node: NodeCache::default(),
        is_init,
        shutdown: Shutdown::default(),
    });
    agent.node.set_node(answer.node.clone());
    agent.node.set_config(answer.config.clone());
    let ask = fresh_node(Arc::clone(&client), &addresses);
    agent.node.set_source(ask);

    let mut registry = Registry::default();
    crate::ext::register(&mut registry, ring);
    crate::deploy::register(&mut registry);
    crate::inventory::register(&mut registry);
    let runner = Arc::new(Runner::new(Arc::clone(&agent), registry));
    board.set_node(&answer.node, &runner);
    let router = server::router(server::Shared::new(Arc::clone(&runner), token.clone()));
    let serving = tokio::spawn(server::serve(
        listener,
        Arc::clone(&identity.server_config),
        router,
    ));
    let beat = beat(
        &agent.params,
        &answer,
        token,
        callback_url(host, port),
        identity,
    );
    info!("command server: {}", beat.body.callback_url);
    let heartbeats = Heartbeats::new(client, beat, Random::default(), runner.finished());
    let beating = tokio::spawn(heartbeats.run());

    let goal = agent.shutdown.wait().await;
    info!(
        "end: {}",
        match goal {
            Goal::Reboot => "restart",
            Goal::PowerOff => "power off",
            Goal::Stay => "the machine is its user's, nothing is served any more",
            Goal::Lockdown => "locked down",
        }
    );
    tokio::time::sleep(LAST_WORDS).await;
    runner.cancel();
    beating.abort();
    serving.abort();
    match goal {
        // The system around us would only start us again.
        Goal::Stay => std::future::pending().await,
        Goal::Lockdown if agent.is_init => Ok(net::lockdown::hold().await),
        // The network of a machine that is not ours stays.
        Goal::Lockdown => std::future::pending().await,
        Goal::Reboot | Goal::PowerOff => Ok(goal),
    }
}

/// Asks the API for this machine's node; for threads that may block.
fn fresh_node(client: Arc<Client>, addresses: &[Mac]) -> impl Fn() -> Option<LookupNode> + use<> {
    let addresses: Vec<String> = addresses.iter().map(Mac::to_string).collect();
    let addresses = addresses.join(",");
    let runtime = tokio::runtime::Handle::current();
    move || {
        let asking = tokio::time::timeout(FRESH_LIMIT, client.lookup(&addresses));
        match runtime.block_on(asking) {
            Ok(Ok(answer)) => Some(answer.node),
            Ok(Err(error)) => {
                warn!(
                    "the node cannot be asked for, what is known is used: {}",
                    CommandFailure::chain(&error)
                );
                None
            }
            Err(_) => {
                warn!("the API does not tell of the node, what is known is used");
                None
            }
        }
    }
}

async fn listen(params: &Params) -> Result<(TcpListener, u16), RunError> {
    let (host, port) = (params.listen_host, params.listen_port);
    let error = |source| RunError::Listen { host, port, source };
    let listener = server::bind(host, port).await.map_err(error)?;
    let port = listener.local_addr().map_err(error)?.port();
    Ok((listener, port))
}

fn callback_url(host: IpAddr, port: u16) -> String {
    match host {
        IpAddr::V4(host) => format!("https://{host}:{port}"),
        IpAddr::V6(host) => format!("https://[{host}]:{port}"),
    }
}

fn beat(
    params: &Params,
    answer: &LookupAnswer,
    token: Secret,
    callback_url: String,
    identity: Identity,
) -> Beat {
    Beat {
        node: answer.node.uuid,
        timeout: Duration::from_secs(answer.config.heartbeat_timeout.max(1)),
        interval: params.heartbeat_interval,
        body: Heartbeat {
            callback_url,
            agent_token: Some(token),
            agent_version: Some(server::VERSION.to_owned()),
            agent_verify_ca: Some(identity.certificate_pem),
            ..Heartbeat::default()
        },
    }
}

/// Runs again after each error, for PID 1: a machine in the ramdisk has
/// nothing better to do, and what is wrong may be put right outside.
pub async fn run_until_told(mut config: impl FnMut() -> Config) -> Goal {
    const PAUSE: Duration = Duration::from_secs(10);
    loop {
        match run(config()).await {
            Ok(goal) => return goal,
            Err(error) => {
                warn!("{}", CommandFailure::chain(&error));
                warn!("starting again in {} s", PAUSE.as_secs());
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
