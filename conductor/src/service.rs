//! The running conductor.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::Weak;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use wrought_store::Store;

use crate::admission;
use crate::admission::Admission;
use crate::allocations::Searches;
use crate::config::Config;
use crate::drivers::bmc::Bmcs;
use crate::drivers::bmc::Lan;
use crate::drivers::catalog::Catalog;
use crate::error::Error;
use crate::flows::Permit;
use crate::lease::Count;
use crate::lease::Fenced;
use crate::line::Lines;
use crate::membership;
use crate::membership::Membership;
use crate::periodic;
use crate::periodic::meters::Meters;
use crate::plugins::Plugins;
use crate::stamps;
use crate::stamps::Stamps;
use crate::takeover;
use crate::takeover::Takeover;
use crate::watch::Watches;
use crate::workers::Workers;

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
    pub(crate) membership: Membership,
    pub(crate) takeover: Takeover,
    /// Those who wait for locks.
    pub(crate) lines: Lines,
    /// The locks that are held.
    pub(crate) held: Count,
    /// Writes that were refused under lost locks.
    pub(crate) fenced: Fenced,
    pub(crate) watches: Watches,
    pub(crate) stamps: Stamps,
    pub(crate) workers: Workers,
    pub(crate) admission: Admission,
    pub(crate) meters: Meters,
    pub(crate) power_syncs: Stamps,
    pub(crate) power_faults: periodic::power_sync::Faults,
    pub(crate) searches: Searches,
    pub(crate) plugins: Plugins,
    /// When this life of the process began.
    pub(crate) began: Instant,
    /// What is dropped when the others count this conductor as dead.
    work: Jobs,
    /// What goes on as long as the conductor does.
    chores: Jobs,
    me: Weak<Self>,
}

/// Work in the background; none: no more is begun.
#[derive(Debug)]
struct Jobs(Mutex<Option<JoinSet<()>>>);

impl Default for Jobs {
    fn default() -> Self {
        Self(Mutex::new(Some(JoinSet::new())))
    }
}

impl Jobs {
    fn spawn(&self, job: impl Future<Output = ()> + Send + 'static) {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(jobs) = jobs.as_mut() {
            while jobs.try_join_next().is_some() {}
            jobs.spawn(job);
        }
    }

    /// Drops all of it where it is. `fresh`: what comes then.
    async fn drop_all(&self, fresh: Option<JoinSet<()>>) {
        let jobs = {
            let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *jobs, fresh)
        };
        if let Some(mut jobs) = jobs {
            jobs.shutdown().await;
        }
    }
}

impl Service {
    /// Starts a conductor: registers it, goes on with what an earlier life of
    /// it, or another conductor, left behind, and begins its periodic tasks.
    pub async fn start(store: Store, config: Config, ca: CaIdentity) -> Result<Arc<Self>, Error> {
        Self::start_with(store, config, ca, Arc::new(Lan::default())).await
    }

    /// The same with other BMCs than those of the network.
    pub async fn start_with(
        store: Store,
        mut config: Config,
        ca: CaIdentity,
        bmcs: Arc<dyn Bmcs>,
    ) -> Result<Arc<Self>, Error> {
        // Fails when one is installed already, which is as good.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let catalog = Catalog::new(&config.drivers)?;
        if !config.alone {
            let dead_after = Duration::from_secs(config.conductor.dead_after);
            config.pace = config.pace.among_others(dead_after);
        }
        let conductor = &config.conductor;
        let plugins = Plugins::new(config.step_guard.clone());
        let workers = Workers::new(conductor.workers, conductor.heartbeat_workers);
        let membership = Membership::new(store.clone(), &config);
        let service = Arc::new_cyclic(|me| Self {
            store,
            config,
            ca,
            bmcs,
            catalog,
            membership,
            takeover: Takeover::default(),
            lines: Lines::default(),
            held: Count::default(),
            fenced: Fenced::default(),
            watches: Watches::default(),
            stamps: Stamps::default(),
            workers,
            admission: Admission::default(),
            meters: Meters::default(),
            power_syncs: Stamps::default(),
            power_faults: periodic::power_sync::Faults::default(),
            searches: Searches::default(),
            plugins,
            began: Instant::now(),
            work: Jobs::default(),
            chores: Jobs::default(),
            me: Weak::clone(me),
        });
        service.spawn_chore(membership::hear(Arc::clone(&service)));
        service.register().await?;
        // Lists that are gone on with may have steps of theirs.
        service.refresh_plugins().await;
        crate::startup::go_on(&service).await?;
        crate::allocations::take_up(&service).await?;
        service.spawn_chore(membership::keep(Arc::clone(&service)));
        if !service.membership.is_alone() {
            service.spawn_chore(takeover::keep(Arc::clone(&service)));
        }
        periodic::start(&service);
        admission::nudge(&service);
        tracing::info!(host = service.config.host, "conductor started");
        Ok(service)
    }

    /// This service, to be handed to background work.
    pub(crate) fn own(&self) -> Result<Arc<Self>, Error> {
        let gone = || Error::Busy("The conductor is ending.".to_owned());
        self.me.upgrade().ok_or_else(gone)
    }

    /// Ends the conductor. It leaves the ring, then running work gets
    /// `graceful_shutdown_timeout` to come to a point from which it can be gone
    /// on with; what does not is dropped where it is. Whoever looks after the
    /// nodes then, at the latest the next start, goes on with all of it.
    pub async fn shutdown(&self) {
        self.leave().await;
        let grace = Duration::from_secs(self.config.conductor.graceful_shutdown_timeout);
        let until = Instant::now() + grace;
        while self.held.get() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let left = self.held.get();
        if left > 0 {
            tracing::warn!(
                nodes = left,
                "work on nodes that did not come to an end is left to its journal"
            );
        }
        self.drop_everything().await;
        // What is lost with them is no more than a round's stamps.
        stamps::flush(self).await;
        let _ = periodic::power_sync::mark(self).await;
        let host = &self.config.host;
        if let Err(error) = self.store.release_all(host).await {
            tracing::warn!(host, err = %crate::error::chain(&error), "locks not given back");
        }
    }

    async fn drop_everything(&self) {
        self.chores.drop_all(None).await;
        self.work.drop_all(None).await;
        self.watches.clear();
    }

    /// Drops all work on nodes where it is.
    pub(crate) async fn drop_work(&self) {
        self.work.drop_all(Some(JoinSet::new())).await;
        self.watches.clear();
    }

    /// Stops at once and leaves everything as it is, as a crash would.
    #[cfg(test)]
    pub(crate) async fn crash(&self) {
        self.drop_everything().await;
    }

    /// Does work on a node in the background.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.work.spawn(work);
    }

    /// Does what goes on as long as the conductor does.
    pub(crate) fn spawn_chore(&self, chore: impl Future<Output = ()> + Send + 'static) {
        self.chores.spawn(chore);
    }

    /// The right to do work in the background, at once or not at all.
    pub(crate) fn permit(&self) -> Result<Permit, Error> {
        self.workers.for_request()
    }
}
