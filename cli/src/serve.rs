//! `wrought serve`, `wrought api` and `wrought conductor`: puts together what
//! the process has of store, conductor, API and boot listener, and runs it
//! until it is told to stop.

mod files;
mod front;
mod listeners;
mod lock;
mod names;
mod password;
mod stop;
pub(crate) mod tls;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use wrought_api::ApiState;
use wrought_api::Auth;
use wrought_api::Proxies;
use wrought_conductor::CaIdentity;
use wrought_conductor::Service;
use wrought_conductor::config::Config;
use wrought_rpc::Conductor;
use wrought_rpc::Remote;
use wrought_store::Store;

use crate::ca;
use crate::ca::leaf::Identity;
use crate::config::AuthChoice;
use crate::config::Form;
use crate::config::Settings;
use crate::exit::Failure;
use crate::exit::Kind;
use crate::exit::OrExit;
use crate::exit::Outcome;
use crate::private;
use listeners::Listeners;
use listeners::bind;

/// How long an orderly end may take beyond the work that the conductor waits
/// for.
const GRACE: Duration = Duration::from_secs(15);

/// Runs the server.
pub(crate) async fn run(mut settings: Settings) -> Outcome {
    let stop = stop::Stop::on_signals().or_exit(Kind::Internal)?;
    private::folder(&settings.state_dir).or_exit(Kind::Io)?;
    if settings.form != Form::Serve {
        private::folder(&settings.own_dir()).or_exit(Kind::Io)?;
    }
    let _locks =
        lock::Locks::take(&settings.own_dir(), &settings.database).or_exit(Kind::Unavailable)?;
    // What is only made up from the address is for agents, not for links.
    let endpoint = settings.public_endpoint.clone();
    let sockets = Sockets::bind(&settings).await.or_exit(Kind::Unavailable)?;
    sockets.tell(&mut settings).or_exit(Kind::Io)?;
    serve(settings, endpoint, sockets, stop).await
}

/// The sockets, bound before anything else is done.
struct Sockets {
    front: Option<front::Sockets>,
    boot: Option<TcpListener>,
    rpc: Option<TcpListener>,
    metrics: Option<TcpListener>,
}

impl Sockets {
    async fn bind(settings: &Settings) -> anyhow::Result<Self> {
        let mut sockets = Self {
            front: None,
            boot: None,
            rpc: None,
            metrics: None,
        };
        if settings.form.has_api() {
            let api = bind(settings.listen).await?;
            let ramdisk = match settings.ramdisk.listen {
                Some(listen) => Some(bind(listen).await?),
                None => None,
            };
            sockets.front = Some(front::Sockets { api, ramdisk });
        }
        if let (Some(listen), true) = (settings.boot.listen, settings.form.has_conductor()) {
            sockets.boot = Some(bind(listen).await?);
        }
        if settings.form == Form::Conductor {
            sockets.rpc = Some(bind(settings.rpc.listen).await?);
        }
        if let (Some(listen), true) = (settings.metrics.listen, settings.form.has_conductor()) {
            sockets.metrics = Some(bind(listen).await?);
        }
        Ok(sockets)
    }

    /// Puts into the settings where they really listen, and what others are
    /// told of it.
    fn tell(&self, settings: &mut Settings) -> std::io::Result<()> {
        let scheme = settings.scheme();
        if let Some(front) = &self.front {
            let listen = front.api.local_addr()?;
            settings.listen = listen;
            if settings.public_endpoint.is_none() && !listen.ip().is_unspecified() {
                settings.public_endpoint = Some(format!("{scheme}://{listen}"));
            }
            if let Some(ramdisk) = &front.ramdisk {
                let listen = ramdisk.local_addr()?;
                settings.ramdisk.listen = Some(listen);
                if settings.ramdisk.url.is_none() && !listen.ip().is_unspecified() {
                    settings.ramdisk.url = Some(format!("{scheme}://{listen}"));
                }
            }
        }
        if let Some(boot) = &self.boot {
            settings.boot.listen = Some(boot.local_addr()?);
        }
        if let Some(metrics) = &self.metrics {
            settings.metrics.listen = Some(metrics.local_addr()?);
        }
        if let Some(rpc) = &self.rpc {
            let listen = rpc.local_addr()?;
            settings.rpc.listen = listen;
            let host = &settings.host;
            settings
                .rpc
                .url
                .get_or_insert_with(|| match listen.ip().is_unspecified() {
                    true => format!("https://{host}:{}", listen.port()),
                    false => format!("https://{listen}"),
                });
        }
        Ok(())
    }
}

async fn serve(
    settings: Settings,
    endpoint: Option<String>,
    sockets: Sockets,
    stop: stop::Stop,
) -> Outcome {
    let source = source(&settings)?;
    let identity = source.identity().or_exit(Kind::Io)?;
    let (auth, password) = match settings.form.has_api() {
        true => front::authentication(&settings)?,
        false => (Auth::none(), None),
    };
    let store = open(&settings).await?;
    let own = tls::Kept::start(&identity, source).or_exit(Kind::Io)?;
    let given = match settings.tls.clone().filter(|_| settings.form.has_api()) {
        Some(given) => Some(
            tls::Kept::given(given)
                .context("in [tls]")
                .or_exit(Kind::Io)?,
        ),
        None => None,
    };
    let service = match settings.form.has_conductor() {
        true => Some(start(&settings, &store, &identity).await?),
        false => None,
    };
    let dead_after = Duration::from_secs(settings.conductor.dead_after);
    let limits = wrought_api::Limits::for_files(files::raise());
    let (mut front, mut back) = (Listeners::new(limits.clone()), Listeners::new(limits));
    if let Some(service) = &service {
        if let Some(boot) = sockets.boot {
            back.start(boot, None, wrought_conductor::boot::router(service));
        }
        if let Some(rpc) = sockets.rpc {
            let tls = wrought_rpc::tls::server(identity.ca_der.clone(), own.certificate());
            let tls = tls.or_exit(Kind::Internal)?;
            let router = wrought_rpc::server::router(Arc::clone(service) as Arc<dyn Conductor>);
            back.start(rpc, Some(Arc::new(tls)), router);
        }
        if let Some(metrics) = sockets.metrics {
            let conductor = Arc::clone(service) as Arc<dyn Conductor>;
            back.start(metrics, None, wrought_api::metrics_of(conductor));
        }
    }
    if let Some(sockets) = sockets.front {
        let conductor: Arc<dyn Conductor> = match &service {
            Some(service) => Arc::clone(service) as Arc<dyn Conductor>,
            None => {
                let tls = wrought_rpc::tls::client(identity.ca_der.clone(), own.certificate());
                let timeout = Duration::from_secs(settings.rpc.timeout);
                Remote::start(
                    store.clone(),
                    dead_after,
                    tls.or_exit(Kind::Internal)?,
                    timeout,
                )
                .or_exit(Kind::Internal)?
            }
        };
        let state = ApiState {
            store: store.clone(),
            conductor,
            auth,
            public_endpoint: endpoint,
            proxies: Proxies::new(settings.trusted_proxies.clone()),
            dead_after,
        };
        let tls = match settings.http {
            true => None,
            false => Some(own.server().or_exit(Kind::Internal)?),
        };
        // Ramdisks trust our own CA alone.
        let shown = match &given {
            Some(given) => Some(given.server().or_exit(Kind::Internal)?),
            None => tls.clone(),
        };
        sockets.serve(&settings, state, (shown, tls), &mut front);
    }
    announce(&settings, &identity, password);

    // A listener that ends before the word to stop has failed.
    let failed = tokio::select! {
        () = stop.wait() => None,
        failure = front.failure() => Some(failure),
        failure = back.failure() => Some(failure),
    };
    tracing::info!("stopping; a second signal ends at once");
    let work = Duration::from_secs(settings.conductor.graceful_shutdown_timeout);
    let grace = GRACE + service.as_ref().map_or(Duration::ZERO, |_| work);
    let end = async {
        if let Some(service) = &service {
            // From now on the nodes are with others.
            service.leave().await;
        }
        front.end().await;
        if let Some(service) = &service {
            service.shutdown().await;
        }
        // Machines still boot, and calls are still answered, while work ends.
        back.end().await;
        store.close().await;
    };
    if tokio::time::timeout(grace, end).await.is_err() {
        tracing::warn!("not all work ended within {grace:?}; the next start goes on with it");
    }
    match failed {
        Some(error) => Err(error).or_exit(Kind::Internal),
        None => Ok(()),
    }
}

/// Where this process's certificate comes from.
fn source(settings: &Settings) -> Outcome<tls::Source> {
    private::folder(&settings.ca_dir).or_exit(Kind::Io)?;
    if settings.form != Form::Serve && !ca::authority::is_in(&settings.ca_dir) {
        return Err(Failure::new(
            Kind::Unavailable,
            format!(
                "there is no CA in {0}: make the installation's one and only with `wrought ca init \
                 --ca-dir {0}`, or put there what `wrought ca issue` makes where it is; API and \
                 conductors know each other by it",
                settings.ca_dir.display()
            ),
        ));
    }
    let api = settings.form.has_api();
    let endpoint = settings.public_endpoint.as_deref().filter(|_| api);
    let ramdisk = settings.ramdisk.url.as_deref().filter(|_| api);
    let rpc = settings.rpc.url.as_deref();
    let rpc = rpc.filter(|_| settings.form == Form::Conductor);
    let listens = match settings.form {
        Form::Conductor => [Some(settings.rpc.listen), None],
        _ => [Some(settings.listen), settings.ramdisk.listen],
    };
    let names = names::collect(
        &settings.host,
        &listens,
        &[
            ("public_endpoint", endpoint),
            ("url of [ramdisk]", ramdisk),
            ("url of [rpc]", rpc),
        ],
    );
    Ok(tls::Source {
        ca_dir: settings.ca_dir.clone(),
        state_dir: settings.own_dir(),
        names: names.or_exit(Kind::Usage)?,
    })
}

async fn open(settings: &Settings) -> Outcome<Store> {
    // A URL of another kind may hold a password; the error has it masked.
    let file = settings.database.strip_prefix("sqlite:").unwrap_or("");
    let opened = match settings.form {
        Form::Serve => Store::open(&settings.database).await,
        _ => Store::open_shared(&settings.database).await,
    };
    opened.map_err(|error| Failure {
        kind: match error {
            wrought_store::Error::BadUrl { .. } | wrought_store::Error::NotShared => Kind::Usage,
            wrought_store::Error::Taken | wrought_store::Error::InUseBy { .. } => Kind::Unavailable,
            _ => Kind::Io,
        },
        error: anyhow::Error::new(error)
            .context(format!("opening the database {file}").trim_end().to_owned()),
    })
}

async fn start(settings: &Settings, store: &Store, identity: &Identity) -> Outcome<Arc<Service>> {
    let ca = CaIdentity {
        ca_pem: identity.ca_pem.clone(),
        ca_sha256_hex: identity.ca_fingerprint.clone(),
    };
    Service::start(store.clone(), conductor_config(settings), ca)
        .await
        .context("starting the conductor")
        .or_exit(Kind::Internal)
}

fn conductor_config(settings: &Settings) -> Config {
    let mut config = Config::new(&settings.host, settings.own_dir());
    let ramdisk = settings.ramdisk.url.as_ref();
    config.public_endpoint = ramdisk.or(settings.public_endpoint.as_ref()).cloned();
    config.alone = settings.form == Form::Serve;
    // This very program, also when another one has taken its place on the disk.
    config.step_guard = Some(PathBuf::from("/proc/self/exe"));
    config.rpc_url = match settings.form {
        Form::Conductor => settings.rpc.url.clone(),
        _ => None,
    };
    config.drivers = settings.drivers.clone();
    config.boot = settings.boot.clone();
    config.conductor = settings.conductor.clone();
    config.agent = settings.agent.clone();
    config
}

/// Tells whoever started it what is where.
fn announce(settings: &Settings, identity: &Identity, password: Option<PathBuf>) {
    let (form, scheme) = (settings.form, settings.scheme());
    if form.has_api() {
        println!("wrought: API on {scheme}://{}", settings.listen);
        if let Some(listen) = settings.ramdisk.listen {
            println!("wrought: ramdisk endpoints on {scheme}://{listen}");
        }
    }
    if let (Form::Conductor, Some(url)) = (form, &settings.rpc.url) {
        println!("wrought: conductor {} takes calls at {url}", settings.host);
    }
    if let (Some(listen), true) = (settings.boot.listen, form.has_conductor()) {
        println!("wrought: boot artefacts on http://{listen}");
    }
    if let (Some(listen), true) = (settings.metrics.listen, form.has_conductor()) {
        println!("wrought: metrics on http://{listen}/metrics");
    }
    println!(
        "wrought: CA certificate {}",
        settings.ca_dir.join(ca::authority::CERT).display()
    );
    println!("wrought: CA SHA-256 {}", identity.ca_fingerprint);
    if let Some(file) = password {
        println!(
            "wrought: user {}, password in {}",
            password::USER,
            file.display()
        );
    }
    if form.has_api() && settings.auth == AuthChoice::None && !settings.listen.ip().is_loopback() {
        let listen = settings.listen;
        tracing::warn!("no authentication: everybody who reaches {listen} controls the machines");
    }
}

#[cfg(test)]
mod tests {
    use super::conductor_config;
    use crate::config::Form;
    use crate::config::Settings;
    use crate::config::options;

    #[test]
    fn only_a_server_in_one_process_has_all_nodes() {
        let mut settings = Settings::load(Form::Serve, options::Serve::default()).unwrap();
        let config = conductor_config(&settings);
        assert!(config.alone && config.step_guard.is_some());
        settings.form = Form::Conductor;
        settings.rpc.url = Some("https://c1:8089".to_owned());
        let config = conductor_config(&settings);
        assert!(!config.alone && config.rpc_url.is_some());
    }
}
