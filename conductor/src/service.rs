//! The running conductor.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::Weak;
use std::time::Duration;

use tokio::task::JoinSet;
use wrought_store::Store;

use crate::admission;
use crate::admission::Admission;
use crate::allocations::Searches;
use crate::boot::Offers;
use crate::config::Config;
use crate::drivers::bmc::Bmcs;
use crate::drivers::bmc::Lan;
use crate::drivers::catalog::Catalog;
use crate::error::Error;
use crate::flows::Permit;
use crate::periodic;
use crate::periodic::meters::Meters;
use crate::plugins::Plugins;
use crate::stamps;
use crate::stamps::Stamps;
use crate::task::store as db;
use crate::watch::Watches;
use crate::workers::Workers;

/// How long running work may take to end by itself at shutdown.
const GRACE: Duration = Duration::from_secs(5);

/// The installation's CA, as ramdisks are told of it.
#[derive(Debug, Clone)]
pub struct CaIdentity {
    /// Its certificate, PEM.
    pub ca_pem: String,
    /// SHA-256 of the certificate's DER, hex.
    pub ca_sha256_hex: String,
}

/// The running conductor: implements [`wrought_rpc::Conductor`].
#[derive(Debug)]
pub struct Service {
    pub(crate) store: Store,
    pub(crate) config: Config,
    pub(crate) ca: CaIdentity,
    pub(crate) bmcs: Arc<dyn Bmcs>,
    pub(crate) catalog: Catalog,
    pub(crate) offers: Offers,
    pub(crate) watches: Watches,
    pub(crate) stamps: Stamps,
    pub(crate) workers: Workers,
    pub(crate) admission: Admission,
    pub(crate) meters: Meters,
    pub(crate) power_syncs: Stamps,
    pub(crate) power_faults: periodic::power_sync::Faults,
    pub(crate) searches: Searches,
    pub(crate) plugins: Plugins,
    tasks: Mutex<Option<JoinSet<()>>>,
    me: Weak<Self>,
}

impl Service {
    /// Starts a conductor: registers it, goes on with what an earlier life of
    /// it left behind, and begins its periodic tasks.
    pub async fn start(store: Store, config: Config, ca: CaIdentity) -> Result<Arc<Self>, Error> {
        Self::start_with(store, config, ca, Arc::new(Lan::default())).await
    }

    /// The same with other BMCs than those of the network.
    pub async fn start_with(
        store: Store,
        config: Config,
        ca: CaIdentity,
        bmcs: Arc<dyn Bmcs>,
    ) -> Result<Arc<Self>, Error> {
        // Fails when one is installed already, which is as good.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let catalog = Catalog::new(&config.drivers)?;
        let conductor = &config.conductor;
        let workers = Workers::new(conductor.workers, conductor.heartbeat_workers);
        let service = Arc::new_cyclic(|me| Self {
            store,
            config,
            ca,
            bmcs,
            catalog,
            offers: Offers::default(),
            watches: Watches::default(),
            stamps: Stamps::default(),
            workers,
            admission: Admission::default(),
            meters: Meters::default(),
            power_syncs: Stamps::default(),
            power_faults: periodic::power_sync::Faults::default(),
            searches: Searches::default(),
            plugins: Plugins::default(),
            tasks: Mutex::new(Some(JoinSet::new())),
            me: Weak::clone(me),
        });
        let host = &service.config.host;
        let types = service.catalog.types().iter();
        let drivers: Vec<String> = types.map(|one| one.name.to_owned()).collect();
        let registered = service.store.register_conductor(host, "", &drivers).await;
        registered.map_err(db("register the conductor"))?;
        service.offers.load(&service).await?;
        // Lists that are gone on with may have steps of theirs.
        service.refresh_plugins().await;
        crate::startup::go_on(&service).await?;
        crate::allocations::take_up(&service).await?;
        periodic::start(&service);
        admission::nudge(&service);
        tracing::info!(host, "conductor started");
        Ok(service)
    }

    /// This service, to be handed to background work.
    pub(crate) fn own(&self) -> Result<Arc<Self>, Error> {
        let gone = || Error::Busy("The conductor is ending.".to_owned());
        self.me.upgrade().ok_or_else(gone)
    }

    /// Ends the conductor: running work gets a moment to end, what does not is
    /// dropped where it is and gone on with at the next start.
    pub async fn shutdown(&self) {
        self.workers.close();
        let tasks = self
            .tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(mut tasks) = tasks {
            let until = tokio::time::Instant::now() + GRACE;
            while self.anybody_works().await && tokio::time::Instant::now() < until {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            tasks.abort_all();
            while tasks.join_next().await.is_some() {}
        }
        // What is lost with them is no more than a round's stamps.
        stamps::flush(self).await;
        let _ = periodic::power_sync::mark(self).await;
        let host = &self.config.host;
        if let Err(error) = self.store.release_all(host).await {
            tracing::warn!(host, err = %crate::error::chain(&error), "locks not given back");
        }
        if let Err(error) = self.store.unregister_conductor(host).await {
            tracing::warn!(host, err = %crate::error::chain(&error), "conductor not signed off");
        }
    }

    /// Stops at once and leaves everything as it is, as a crash would.
    #[cfg(test)]
    pub(crate) async fn crash(&self) {
        let tasks = self
            .tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(mut tasks) = tasks {
            tasks.abort_all();
            while tasks.join_next().await.is_some() {}
        }
    }

    async fn anybody_works(&self) -> bool {
        let reserved = wrought_store::NodeQuery {
            reserved: Some(true),
            include_children: true,
            limit: Some(1),
            ..wrought_store::NodeQuery::default()
        };
        let found = self.store.list_nodes_brief(&reserved).await;
        found.is_ok_and(|nodes| !nodes.is_empty())
    }

    /// Runs something in the background, until the conductor ends.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // None: the conductor is ending.
        if let Some(tasks) = tasks.as_mut() {
            while tasks.try_join_next().is_some() {}
            tasks.spawn(work);
        }
    }

    /// The right to do work in the background, at once or not at all.
    pub(crate) fn permit(&self) -> Result<Permit, Error> {
        self.workers.for_request()
    }
}
