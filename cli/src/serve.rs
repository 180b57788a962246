//! `wrought serve`: puts store, conductor, API and boot listener together and
//! runs them until it is told to stop.

mod files;
mod lock;
mod names;
mod password;
mod stop;
mod tls;

use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use tokio::net::TcpListener;
use tokio::task::JoinError;
use tokio::task::JoinHandle;
use wrought_api::ApiState;
use wrought_api::Auth;
use wrought_api::AuthError;
use wrought_api::Part;
use wrought_api::Proxies;
use wrought_conductor::CaIdentity;
use wrought_conductor::Service;
use wrought_conductor::config::Config;
use wrought_store::Store;

use crate::config::AuthChoice;
use crate::config::Settings;
use crate::exit::Failure;
use crate::exit::Kind;
use crate::exit::OrExit;
use crate::exit::Outcome;
use crate::private;

/// How long an orderly end may take.
const GRACE: Duration = Duration::from_secs(30);
/// Silence after which a conductor counts as dead.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// Runs the server.
pub(crate) async fn run(settings: Settings) -> Outcome {
    let stop = stop::Stop::on_signals().or_exit(Kind::Internal)?;
    private::folder(&settings.state_dir).or_exit(Kind::Io)?;
    let _locks =
        lock::Locks::take(&settings.state_dir, &settings.database).or_exit(Kind::Unavailable)?;
    let api = bind(settings.listen).await.or_exit(Kind::Unavailable)?;
    let boot = match settings.boot.listen {
        Some(listen) => Some(bind(listen).await.or_exit(Kind::Unavailable)?),
        None => None,
    };
    let ramdisk = match settings.ramdisk.listen {
        Some(listen) => Some(bind(listen).await.or_exit(Kind::Unavailable)?),
        None => None,
    };
    let listeners = Listeners { api, boot, ramdisk };
    serve(settings, listeners, stop).await
}

/// The sockets, bound before anything else is done.
struct Listeners {
    api: TcpListener,
    boot: Option<TcpListener>,
    ramdisk: Option<TcpListener>,
}

async fn serve(mut settings: Settings, listeners: Listeners, stop: stop::Stop) -> Outcome {
    let Listeners { api, boot, ramdisk } = listeners;
    // What is only made up from the address is for agents, not for links.
    let endpoint = settings.public_endpoint.clone();
    let listen = api.local_addr().or_exit(Kind::Io)?;
    let scheme = if settings.http { "http" } else { "https" };
    if settings.public_endpoint.is_none() && !listen.ip().is_unspecified() {
        settings.public_endpoint = Some(format!("{scheme}://{listen}"));
    }
    if let Some(boot) = &boot {
        settings.boot.listen = Some(boot.local_addr().or_exit(Kind::Io)?);
    }
    if let Some(ramdisk) = &ramdisk {
        let listen = ramdisk.local_addr().or_exit(Kind::Io)?;
        settings.ramdisk.listen = Some(listen);
        if settings.ramdisk.url.is_none() && !listen.ip().is_unspecified() {
            settings.ramdisk.url = Some(format!("{scheme}://{listen}"));
        }
    }

    let (auth, password) = authentication(&settings)?;
    private::folder(&settings.ca_dir).or_exit(Kind::Io)?;
    let source = tls::Source {
        ca_dir: settings.ca_dir.clone(),
        state_dir: settings.state_dir.clone(),
        names: names::collect(
            &settings.host,
            &[Some(listen), settings.ramdisk.listen],
            &[
                ("public_endpoint", settings.public_endpoint.as_deref()),
                ("url of [ramdisk]", settings.ramdisk.url.as_deref()),
            ],
        )
        .or_exit(Kind::Usage)?,
    };
    let identity = source.identity().or_exit(Kind::Io)?;
    // A URL of another kind may hold a password; the error has it masked.
    let file = settings.database.strip_prefix("sqlite:").unwrap_or("");
    let store = Store::open(&settings.database)
        .await
        .map_err(|error| Failure {
            kind: match error {
                wrought_store::Error::BadUrl { .. } => Kind::Usage,
                _ => Kind::Io,
            },
            error: anyhow::Error::new(error)
                .context(format!("opening the database {file}").trim_end().to_owned()),
        })?;
    let ca = CaIdentity {
        ca_pem: identity.ca_pem.clone(),
        ca_sha256_hex: identity.ca_fingerprint.clone(),
    };
    let service = Service::start(store.clone(), conductor_config(&settings), ca)
        .await
        .context("starting the conductor")
        .or_exit(Kind::Internal)?;
    let state = ApiState {
        store: store.clone(),
        conductor: Arc::clone(&service) as Arc<dyn wrought_rpc::Conductor>,
        auth,
        public_endpoint: endpoint,
        proxies: Proxies::new(settings.trusted_proxies.clone()),
        dead_after: DEAD_AFTER,
    };
    let part = match (settings.ramdisk.enabled, &ramdisk) {
        (true, None) => Part::All,
        _ => Part::WithoutRamdisk,
    };
    let router = wrought_api::router_of(state.clone(), part);
    let (tls, refresh) = if settings.http {
        (None, None)
    } else {
        let (config, refresh) = tls::server(&identity, source).or_exit(Kind::Io)?;
        (Some(config), Some(refresh))
    };

    println!("wrought: API on {scheme}://{listen}");
    if let Some(listen) = settings.ramdisk.listen {
        println!("wrought: ramdisk endpoints on {scheme}://{listen}");
    }
    if let Some(listen) = settings.boot.listen {
        println!("wrought: boot artefacts on http://{listen}");
    }
    println!(
        "wrought: CA certificate {}",
        settings.ca_dir.join("ca.pem").display()
    );
    println!("wrought: CA SHA-256 {}", identity.ca_fingerprint);
    if let Some(file) = password {
        println!(
            "wrought: user {}, password in {}",
            password::USER,
            file.display()
        );
    }
    if settings.auth == AuthChoice::None && !listen.ip().is_loopback() {
        tracing::warn!("no authentication: everybody who reaches {listen} controls the machines");
    }

    let limits = wrought_api::Limits::for_files(files::raise());
    let mut boot = boot.map(|listener| {
        let router = wrought_conductor::boot::router(&service);
        tokio::spawn(wrought_api::serve(
            listener,
            None,
            router,
            stop.clone().wait(),
        ))
    });
    let mut ramdisk = ramdisk.map(|listener| {
        let router = wrought_api::router_of(state, Part::RamdiskOnly);
        let (tls, until, limits) = (tls.clone(), stop.clone().wait(), limits.clone());
        tokio::spawn(wrought_api::serve_with(
            listener, tls, router, until, limits,
        ))
    });
    let until = stop.clone().wait();
    let mut api = tokio::spawn(wrought_api::serve_with(api, tls, router, until, limits));
    // A listener that ends before the word to stop has failed.
    let ended = tokio::select! {
        // The listeners end by that word too: it is looked at first.
        biased;
        () = stop.clone().wait() => None,
        ended = &mut api => Some(ended),
        ended = either(boot.as_mut()) => Some(ended),
        ended = either(ramdisk.as_mut()) => Some(ended),
    };
    let failed = ended.map(|ended| match ended {
        Ok(Ok(())) => anyhow::anyhow!("a listener ended by itself"),
        Ok(Err(error)) => anyhow::Error::new(error).context("a listener failed"),
        Err(error) => anyhow::Error::new(error).context("a listener broke down"),
    });
    tracing::info!("stopping; a second signal ends at once");
    let end = async {
        if failed.is_none() {
            api.await.ok();
            for other in [boot, ramdisk].into_iter().flatten() {
                other.await.ok();
            }
        }
        service.shutdown().await;
        store.close().await;
    };
    if tokio::time::timeout(GRACE, end).await.is_err() {
        tracing::warn!("not all work ended within {GRACE:?}; the next start goes on with it");
    }
    if let Some(refresh) = refresh {
        refresh.abort();
    }
    match failed {
        Some(error) => Err(error).or_exit(Kind::Internal),
        None => Ok(()),
    }
}

/// The end of a task that may not be there; then it never comes.
async fn either<T>(task: Option<&mut JoinHandle<T>>) -> std::result::Result<T, JoinError> {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

async fn bind(listen: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(listen)
        .await
        .with_context(|| format!("listening on {listen}"))
}

/// Who may use the API, and where a password made by ourselves is.
fn authentication(settings: &Settings) -> Outcome<(Auth, Option<PathBuf>)> {
    match &settings.auth {
        AuthChoice::None => Ok((Auth::none(), None)),
        AuthChoice::Basic(file) => Ok((basic(file)?, None)),
        AuthChoice::Generated => {
            let files = password::ensure(&settings.state_dir).or_exit(Kind::Io)?;
            Ok((basic(&files.htpasswd)?, Some(files.password)))
        }
    }
}

/// A password file, with the roles in `FILE.roles` when that is there.
fn basic(file: &Path) -> Outcome<Auth> {
    let mut roles = file.as_os_str().to_owned();
    roles.push(".roles");
    let roles = Some(PathBuf::from(roles)).filter(|roles| roles.exists());
    Auth::basic(file, roles.as_deref()).map_err(|error| Failure {
        kind: match error {
            AuthError::Line { .. } => Kind::Data,
            _ => Kind::Io,
        },
        error: error.into(),
    })
}

fn conductor_config(settings: &Settings) -> Config {
    let mut config = Config::new(&settings.host, &settings.state_dir);
    let ramdisk = settings.ramdisk.url.as_ref();
    config.public_endpoint = ramdisk.or(settings.public_endpoint.as_ref()).cloned();
    config.drivers = settings.drivers.clone();
    config.boot = settings.boot.clone();
    config.conductor = settings.conductor.clone();
    config.agent = settings.agent.clone();
    config
}

#[cfg(test)]
mod tests {
    use super::basic;
    use crate::exit::Kind;

    #[test]
    fn a_password_file_that_is_none_is_wrong_input() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("htpasswd");
        assert_eq!(basic(&file).unwrap_err().kind, Kind::Io);
        std::fs::write(&file, "admin:plain\n").unwrap();
        assert_eq!(basic(&file).unwrap_err().kind, Kind::Data);
        std::fs::write(&file, "# nobody\n").unwrap();
        assert!(basic(&file).is_ok());
    }
}
