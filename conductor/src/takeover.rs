//! Nodes that come from another conductor, because that one is gone or because
//! this one has joined: what was going on there goes on here.
//!
//! A node at work is gone on with as soon as nobody holds its lock: from the
//! journal, as after a start. The former conductor, if it lives, first comes to
//! the end of what it is at; if it died, its lease runs out. A node that waits
//! is watched from now on; its agent is known from the record and calls whom it
//! called before. Boot artefacts are served by every conductor alike, but a
//! machine that was to fetch them from one that is gone is started anew.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;
use wrought_rpc::members::Members;
use wrought_store::NodeQuery;
use wrought_store::node::Node;
use wrought_wire::state::ProvisionState;

use crate::boot::Offer;
use crate::error::Error;
use crate::error::chain;
use crate::flows::Work;
use crate::flows::inspect;
use crate::flows::rescue;
use crate::flows::settle::settle;
use crate::internal;
use crate::machine;
use crate::machine::Event;
use crate::periodic::pages::Pages;
use crate::service::Service;
use crate::startup;
use crate::steps::Awaited;
use crate::steps::Kind;
use crate::steps::Wait;
use crate::steps::engine;
use crate::steps::ramdisk;
use crate::task::Task;
use crate::task::store;

/// Least time between two looks, however often something moves.
const LEAST: Duration = Duration::from_millis(200);

/// What is on its way to this conductor.
#[derive(Debug, Default)]
pub(crate) struct Takeover {
    /// Nodes that another one still holds.
    awaited: Mutex<HashSet<Uuid>>,
    /// Nodes that are being taken up.
    begun: Mutex<HashSet<Uuid>>,
}

fn lock(set: &Mutex<HashSet<Uuid>>) -> MutexGuard<'_, HashSet<Uuid>> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a node from being taken up twice at a time.
pub(crate) struct Begun {
    svc: Arc<Service>,
    node: Uuid,
}

impl Drop for Begun {
    fn drop(&mut self) {
        lock(&self.svc.takeover.begun).remove(&self.node);
    }
}

impl Takeover {
    /// Whether the node is taken over as soon as it is free.
    pub(crate) fn awaits(&self, node: Uuid) -> bool {
        lock(&self.awaited).contains(&node)
    }
}

/// The right to take a node up; none while somebody is at that.
pub(crate) fn begin(svc: &Arc<Service>, node: Uuid) -> Option<Begun> {
    let svc = Arc::clone(svc);
    let fresh = lock(&svc.takeover.begun).insert(node);
    fresh.then(|| Begun { svc, node })
}

/// Looks for such nodes whenever the ring has moved, and now and then.
pub(crate) async fn keep(svc: Arc<Service>) {
    let every = svc.config.conductor.sync_local_state_interval;
    let seldom = match every {
        0 => Duration::MAX,
        seconds => Duration::from_secs(seconds),
    };
    loop {
        let awaited = match look(&svc).await {
            Ok(()) => !lock(&svc.takeover.awaited).is_empty(),
            Err(error) => {
                tracing::warn!(err = %chain(&error), "nodes of others not taken over");
                true
            }
        };
        // Held nodes are told of when they are freed, but not when their
        // owner dies.
        let soon = svc.config.pace.lease / 6;
        let pause = if awaited { soon.max(LEAST) } else { seldom };
        tokio::time::sleep(LEAST).await;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = svc.membership.moved.notified() => {}
        }
        if svc.membership.is_leaving() {
            return;
        }
    }
}

/// One look at all nodes that may have to be taken over.
pub(crate) async fn look(svc: &Arc<Service>) -> Result<(), Error> {
    let members = svc.membership.members();
    let hosts: Vec<String> = members.alive().iter().map(|c| c.hostname.clone()).collect();
    let freed = svc.store.free_orphans(&hosts).await;
    let freed = freed.map_err(store("free the locks of the dead"))?;
    if !freed.is_empty() {
        tracing::info!(
            nodes = freed.len(),
            "locks of conductors that are gone freed"
        );
    }
    let moving =
        |state: &ProvisionState| machine::is_working(*state) || machine::is_waiting(*state);
    let query = NodeQuery {
        provision_state: ProvisionState::ALL.iter().copied().filter(moving).collect(),
        include_children: true,
        ..NodeQuery::default()
    };
    let powering = NodeQuery {
        power_moving: true,
        include_children: true,
        ..NodeQuery::default()
    };
    let mut awaited = HashSet::new();
    for query in [query, powering] {
        let mut pages = Pages::of(svc, query);
        while let Some(nodes) = pages.try_next().await.map_err(store("list nodes"))? {
            for node in nodes.iter().filter(|node| svc.owns(node)) {
                let held = node.reservation.as_deref();
                let elsewhere = held.is_some_and(|host| host != svc.config.host);
                if elsewhere || (held.is_none() && !take_over(svc, node, &members)) {
                    awaited.insert(node.uuid);
                }
            }
        }
    }
    *lock(&svc.takeover.awaited) = awaited;
    settle_in(svc).await
}

/// A node that moves, and that nobody holds. False when it is to be looked at
/// again.
fn take_over(svc: &Arc<Service>, node: &Node, members: &Members) -> bool {
    if let Some(work) = startup::left_behind(node) {
        startup::begin(svc, node, work);
        return true;
    }
    if machine::is_waiting(node.provision_state) {
        svc.keep_watch(node.uuid);
    }
    // One that was only started anew is `boot_server`'s business.
    let in_vain = waits_in_vain(node, members) == Some(Server::Gone);
    if in_vain && is_overdue(svc, node, Server::Gone) {
        startup::begin(svc, node, Work::BootAgain);
    }
    !in_vain
}

/// What became of the conductor that a machine was to boot from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// It does not live.
    Gone,
    /// It has begun another life since.
    Restarted,
}

/// Whether the machine was started so long ago that it would have called.
pub(crate) fn is_overdue(svc: &Service, node: &Node, server: Server) -> bool {
    let pace = svc.config.pace;
    let patience = match server {
        Server::Gone => pace.boot_patience,
        // Those that only wait for it to come back do so soon.
        Server::Restarted if svc.began.elapsed() < pace.boot_patience => return false,
        Server::Restarted => pace.restart_patience,
    };
    let started: Option<Timestamp> = internal::read(node, internal::LAST_POWER_STATE_CHANGE);
    let waited =
        started.map(|started| Duration::try_from(Timestamp::now().duration_since(started)));
    waited.is_none_or(|waited| waited.is_ok_and(|waited| waited > patience))
}

/// What became of the conductor that the machine was to boot from, where that
/// is not as it was when the machine was started and nothing has been heard of
/// the ramdisk.
pub(crate) fn waits_in_vain(node: &Node, members: &Members) -> Option<Server> {
    use ProvisionState as S;
    let waits = match node.provision_state {
        // They wait for nothing else.
        S::InspectWait | S::RescueWait => true,
        _ => Wait::of(node).is_some_and(|wait| wait.what == Awaited::Agent),
    };
    let pregenerated = internal::read(node, internal::AGENT_TOKEN_PREGENERATED) == Some(true);
    let heard = internal::text(node, internal::AGENT_URL).is_some()
        || (internal::text(node, internal::AGENT_TOKEN).is_some() && !pregenerated);
    if !waits || heard {
        return None;
    }
    let offer = Offer::of(node)?;
    let host = offer.host?;
    let Some(server) = members.alive().iter().find(|one| one.hostname == host) else {
        return Some(Server::Gone);
    };
    let same = offer.life.is_none_or(|life| life == server.instance);
    (!same).then_some(Server::Restarted)
}

/// Takes charge of nodes in use.
async fn settle_in(svc: &Arc<Service>) -> Result<(), Error> {
    if svc.membership.is_alone() {
        return Ok(());
    }
    let query = NodeQuery {
        provision_state: vec![ProvisionState::Active],
        maintenance: Some(false),
        reserved: Some(false),
        affinity_not: Some(svc.config.host.clone()),
        include_children: true,
        ..NodeQuery::default()
    };
    let mut pages = Pages::of(svc, query);
    while let Some(nodes) = pages.try_next().await.map_err(store("list nodes"))? {
        for node in nodes.iter().filter(|node| svc.owns(node)) {
            match Task::take(svc, node.uuid, Duration::ZERO).await {
                Ok(mut task) => {
                    let saved = task.save().await;
                    task.release().await;
                    saved?;
                }
                // Whoever holds it takes charge of it.
                Err(Error::Locked { .. } | Error::NodeNotFound(_) | Error::NotMine { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// The machine waits for boot artefacts that nobody serves any more: it is
/// started anew.
pub(crate) async fn boot_again(task: &mut Task) -> Result<(), Error> {
    use ProvisionState as S;
    let state = task.node.provision_state;
    let members = task.svc.membership.members();
    let server = waits_in_vain(&task.node, &members).filter(|_| machine::is_waiting(state));
    let Some(server) = server else {
        return Ok(());
    };
    let host = Offer::of(&task.node).and_then(|offer| offer.host);
    let text = format!(
        "The machine was to boot from conductor {}, which {}: it is started anew",
        host.unwrap_or_default(),
        match server {
            Server::Gone => "is gone",
            Server::Restarted => "has begun another life since, and it has not called",
        }
    );
    tracing::warn!(node = %task.node.uuid, "{text}");
    let event = match state {
        S::InspectWait => "introspection",
        S::RescueWait => rescue::RESCUE,
        _ => Kind::of(state).map_or("boot", Kind::event_type),
    };
    task.history("WARNING", event, &text);
    let target = task.node.target_provision_state;
    match state {
        S::InspectWait => {
            task.transition(Event::Resume, target).await?;
            return inspect::start(task).await;
        }
        S::RescueWait => {
            task.transition(Event::Resume, target).await?;
            return rescue::start(task).await;
        }
        _ => {}
    }
    let (Some(kind), Some(wait)) = (Kind::of(state), Wait::of(&task.node)) else {
        return Ok(());
    };
    let outcome = async {
        task.transition(Event::Resume, target).await?;
        ramdisk::boot(task).await?;
        // What was to follow then follows now.
        engine::suspend(task, kind, wait).await
    };
    let outcome = outcome.await;
    settle(task, kind, outcome).await
}
