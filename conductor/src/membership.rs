//! This conductor among the others: its registration, its signs of life, and
//! which nodes are its own.
//!
//! A conductor that could not say in time that it lives is dead to the others,
//! who take over its nodes. When it finds that out, because it was stopped or
//! its database was away, it drops all that it is at and begins anew, as after
//! a start. A server on its own (`wrought serve`) looks after every node of
//! every group: nobody else could.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio::time::MissedTickBehavior;
use uuid::Uuid;
use wrought_rpc::members::Members;
use wrought_rpc::view::View;
use wrought_store::Change;
use wrought_store::Registration;
use wrought_store::Sign;
use wrought_store::Store;
use wrought_store::node::Node;

use crate::config::Config;
use crate::error::Error;
use crate::error::chain;
use crate::service::Service;
use crate::startup;
use crate::task::store;

/// What this conductor is to the others.
#[derive(Debug, Clone, Copy)]
enum Standing {
    /// There are no others.
    Alone,
    /// Alive until then, if it says nothing more.
    Alive(Instant),
    /// Not registered: not yet, or another process has its name.
    Absent,
}

#[derive(Debug)]
struct State {
    standing: Standing,
    /// This life of the registration.
    instance: Uuid,
    leaving: bool,
}

/// The conductor's place among those that live.
#[derive(Debug)]
pub(crate) struct Membership {
    host: String,
    alone: bool,
    dead_after: Duration,
    view: View,
    state: Mutex<State>,
    /// Who lived when the ring was last looked at.
    known: Mutex<Vec<(String, Uuid)>>,
    /// The ring has moved, or a node that was waited for is free.
    pub(crate) moved: Notify,
}

impl Membership {
    pub(crate) fn new(store: Store, config: &Config) -> Self {
        let dead_after = Duration::from_secs(config.conductor.dead_after);
        if config.conductor.dead_after <= config.conductor.keepalive_interval {
            tracing::warn!(
                dead_after = config.conductor.dead_after,
                keepalive_interval = config.conductor.keepalive_interval,
                "dead_after in [conductor] is not above keepalive_interval: this conductor will be \
                 taken for dead again and again"
            );
        }
        let state = State {
            standing: Standing::Absent,
            instance: Uuid::nil(),
            leaving: false,
        };
        Self {
            host: config.host.clone(),
            alone: config.alone,
            dead_after,
            view: View::new(store, dead_after),
            state: Mutex::new(state),
            known: Mutex::default(),
            moved: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are no other conductors.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Whether the conductor is about to end.
    pub(crate) fn is_leaving(&self) -> bool {
        self.state().leaving
    }

    /// This life of the registration.
    pub(crate) fn life(&self) -> Uuid {
        self.state().instance
    }

    /// Those that lived when that was last read.
    pub(crate) fn members(&self) -> Arc<Members> {
        self.view.last()
    }

    /// Whether this conductor may look after nodes at all now.
    fn is_present(&self) -> bool {
        let state = self.state();
        match state.standing {
            Standing::Alone => true,
            Standing::Alive(until) => !state.leaving && Instant::now() < until,
            Standing::Absent => false,
        }
    }

    /// The host that looks after a node, among several; none: nobody does.
    pub(crate) fn owner(&self, group: &str, driver: &str, node: Uuid) -> Option<String> {
        let members = self.members();
        let owner = members.owner(group, driver, node).ok()?;
        Some(owner.hostname.clone())
    }

    fn is_mine(&self, group: &str, driver: &str, node: Uuid) -> bool {
        if self.alone {
            return true;
        }
        let members = self.members();
        let owner = members.owner(group, driver, node);
        self.is_present() && owner.is_ok_and(|owner| owner.hostname == self.host)
    }

    /// Says that the conductor lives until `dead_after` after `asked`.
    fn lives(&self, instance: Uuid, asked: Instant) {
        let mut state = self.state();
        state.instance = instance;
        state.standing = match self.alone {
            true => Standing::Alone,
            false => Standing::Alive(asked + self.dead_after),
        };
    }

    /// Reads who lives; whether that is others than before.
    async fn look(&self) -> Result<bool, wrought_store::Error> {
        let members = self.view.refreshed().await?;
        let alive = members.alive().iter();
        let alive: Vec<(String, Uuid)> = alive
            .map(|one| (one.hostname.clone(), one.instance))
            .collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::replace(&mut *known, alive.clone()) != alive)
    }
}

impl Service {
    /// Whether this conductor looks after the node.
    pub(crate) fn owns(&self, node: &Node) -> bool {
        self.is_mine(&node.conductor_group, &node.driver, node.uuid)
    }

    /// The same for a node of that group and hardware type.
    pub(crate) fn is_mine(&self, group: &str, driver: &str, node: Uuid) -> bool {
        self.membership.is_mine(group, driver, node)
    }

    /// Refuses a node that another conductor looks after.
    pub(crate) fn check_mine(&self, node: &Node) -> Result<(), Error> {
        match self.owns(node) {
            true => Ok(()),
            false => Err(self.not_mine(&node.conductor_group, &node.driver, node.uuid)),
        }
    }

    /// The same for a node of which only the UUID is known.
    pub(crate) async fn check_place(&self, node: Uuid) -> Result<(), Error> {
        if self.membership.is_alone() {
            return Ok(());
        }
        let place = self.store.node_place(node).await;
        let place = place.map_err(store("read a node"))?;
        let place = place.ok_or_else(|| Error::NodeNotFound(node.to_string()))?;
        match self.is_mine(&place.conductor_group, &place.driver, node) {
            true => Ok(()),
            false => Err(self.not_mine(&place.conductor_group, &place.driver, node)),
        }
    }

    fn not_mine(&self, group: &str, driver: &str, node: Uuid) -> Error {
        let owner = self.membership.owner(group, driver, node);
        Error::NotMine {
            node,
            host: self.config.host.clone(),
            owner: owner.filter(|owner| *owner != self.config.host),
        }
    }

    /// Registers a new life of this conductor.
    pub(crate) async fn register(&self) -> Result<(), Error> {
        let types = self
            .catalog
            .types()
            .iter()
            .map(|one| one.describe(Vec::new()));
        let types: Vec<wrought_rpc::Driver> = types.collect();
        let named = |one: &wrought_rpc::Driver| one.name.clone();
        let own = Registration {
            hostname: self.config.host.clone(),
            conductor_group: self.config.conductor.group.clone(),
            drivers: types.iter().map(named).collect(),
            interfaces: types
                .iter()
                .map(|one| (named(one), one.enabled.clone()))
                .collect::<BTreeMap<_, _>>(),
            properties: types
                .iter()
                .map(|one| (named(one), one.properties.clone()))
                .collect::<BTreeMap<_, _>>(),
            rpc_url: self.config.rpc_url.clone(),
            instance: Uuid::new_v4(),
        };
        let asked = Instant::now();
        let before = self.store.register_conductor(&own).await;
        let before = before.map_err(store("register the conductor"))?;
        if let Some(before) = before {
            tracing::warn!(
                host = own.hostname,
                silent_seconds = before.silence.as_secs(),
                "a conductor of this name had not signed off: its registration is taken over"
            );
        }
        self.membership.lives(own.instance, asked);
        self.membership
            .look()
            .await
            .map_err(store("list conductors"))?;
        Ok(())
    }

    /// Takes the conductor off the ring: from now on it takes no new work, and
    /// whoever gets its nodes may begin.
    pub async fn leave(&self) {
        let instance = {
            let mut state = self.membership.state();
            if std::mem::replace(&mut state.leaving, true) {
                return;
            }
            state.instance
        };
        self.workers.close();
        let host = &self.config.host;
        let left = self.store.unregister_conductor(host, instance).await;
        if let Err(error) = left {
            tracing::warn!(host, err = %chain(&error), "conductor not signed off");
        }
        // Whom its callers are to ask instead.
        if let Err(error) = self.membership.look().await {
            tracing::debug!(err = %chain(&error), "others not looked for");
        }
    }
}

/// Says again and again that the conductor lives, and looks who else does.
pub(crate) async fn keep(svc: Arc<Service>) {
    let every = Duration::from_secs(svc.config.conductor.keepalive_interval.max(1));
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        if svc.membership.is_leaving() {
            return;
        }
        beat(&svc).await;
    }
}

/// One sign of life.
pub(crate) async fn beat(svc: &Arc<Service>) {
    let membership = &svc.membership;
    let instance = membership.state().instance;
    let asked = Instant::now();
    let (host, dead_after) = (&svc.config.host, membership.dead_after);
    match svc.store.touch_conductor(host, instance, dead_after).await {
        Ok(Sign::Noted) => {
            membership.lives(instance, asked);
            look(svc).await;
        }
        Ok(_) if membership.is_leaving() => {}
        Ok(Sign::Late) => {
            if let Err(error) = begin_anew(svc).await {
                tracing::error!(host, err = %chain(&error), "conductor not registered anew");
            }
        }
        Ok(Sign::Replaced) => {
            // Said once; and again when the other one has gone.
            let before = std::mem::replace(&mut membership.state().standing, Standing::Absent);
            if !matches!(before, Standing::Absent) {
                tracing::error!(
                    host,
                    "another process has registered as this conductor and lives: this one does \
                     nothing until that ends; give each one a host name of its own"
                );
                svc.drop_work().await;
            }
        }
        Err(error) => tracing::warn!(err = %chain(&error), "no sign of life written"),
    }
}

/// The others count this conductor as dead: so it is, and begins anew.
async fn begin_anew(svc: &Arc<Service>) -> Result<(), Error> {
    tracing::warn!(
        host = svc.config.host,
        dead_after = svc.membership.dead_after.as_secs(),
        "silent for too long, so that others take this conductor for dead: all work is dropped, \
         and it registers anew"
    );
    svc.membership.state().standing = Standing::Absent;
    svc.drop_work().await;
    svc.register().await?;
    startup::go_on(svc).await
}

async fn look(svc: &Service) {
    match svc.membership.look().await {
        Ok(true) => {
            let members = svc.membership.members();
            let hosts: Vec<&str> = members
                .alive()
                .iter()
                .map(|c| c.hostname.as_str())
                .collect();
            tracing::info!(
                conductors = hosts.join(" "),
                "the conductors that live have changed"
            );
            svc.membership.moved.notify_one();
        }
        Ok(false) => {}
        Err(error) => tracing::warn!(err = %chain(&error), "others not looked for"),
    }
}

/// Hears what other processes tell.
pub(crate) async fn hear(svc: Arc<Service>) {
    let mut changes = svc.store.changes();
    loop {
        match changes.recv().await {
            Ok(Change::Freed(node)) => {
                svc.lines.freed(node);
                if svc.takeover.awaits(node) {
                    svc.membership.moved.notify_one();
                }
            }
            Ok(Change::Conductors | Change::Missed) | Err(RecvError::Lagged(_)) => {
                if !svc.membership.is_alone() && !svc.membership.is_leaving() {
                    look(&svc).await;
                }
            }
            Err(RecvError::Closed) => return,
        }
    }
}
