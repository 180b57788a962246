//! Watching nodes in wait states: one loop per node asks its agent how far it
//! is, and is woken by heartbeats.
//!
//! The looks of all loops share one pace. With few nodes an agent is asked
//! every [`Pace::agent_poll`](crate::config::Pace), with thousands more seldom;
//! then it is their heartbeats that tell of a step's end. Between two looks a
//! loop holds next to nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio::time::timeout;
use uuid::Uuid;
use wrought_store::node::Node;
use wrought_wire::command::CommandStatus;
use wrought_wire::secret::Secret;
use wrought_wire::state::ProvisionState;

use crate::admission;
use crate::agent;
use crate::error::Error;
use crate::error::chain;
use crate::flows;
use crate::flows::Work;
use crate::internal;
use crate::machine;
use crate::pacer::Pacer;
use crate::service::Service;
use crate::stamps;
use crate::steps;
use crate::steps::Awaited;
use crate::steps::Kind;
use crate::steps::Wait;
use crate::steps::inband;
use crate::steps::inband::Fate;
use crate::steps::limits;
use crate::steps::list;
use crate::task::Task;

/// Looks at the record while no agent is there to be asked.
const IDLE: Duration = Duration::from_secs(15);
/// Looks a second over all nodes, and how many may come in a rush.
const LOOKS: u32 = 200;
const RUSH: u32 = 100;
/// Looks a second that are left to polling; heartbeats have the rest.
const POLLS: u32 = 100;
/// A client, with its connection, is kept from one look to the next only when
/// that is not far.
const KEEP: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Watch {
    wake: Notify,
    /// Something asked for the node's token although it was handed out.
    looked_up: AtomicBool,
}

/// All watching loops.
#[derive(Debug)]
pub(crate) struct Watches {
    loops: Mutex<HashMap<Uuid, Arc<Watch>>>,
    pacer: Pacer,
}

impl Default for Watches {
    fn default() -> Self {
        Self {
            loops: Mutex::default(),
            pacer: Pacer::new(LOOKS, RUSH),
        }
    }
}

impl Watches {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, Arc<Watch>>> {
        self.loops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Between two questions to an agent at work that nothing else prompts.
    fn poll(&self, least: Duration) -> Duration {
        let loops = u32::try_from(self.lock().len()).unwrap_or(u32::MAX);
        least.max(Duration::from_secs(1) / POLLS * loops)
    }

    /// Forgets all loops, which have been ended.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// Makes the node's loop look now, if there is one.
    pub(crate) fn wake(&self, node: Uuid) {
        if let Some(watch) = self.lock().get(&node) {
            watch.wake.notify_one();
        }
    }

    /// Says that a fresh agent asked for the token of a node whose agent has it
    /// already: a hint, no more, since anybody can ask.
    pub(crate) fn looked_up(&self, node: Uuid) {
        if let Some(watch) = self.lock().get(&node) {
            watch.looked_up.store(true, Ordering::Relaxed);
            watch.wake.notify_one();
        }
    }
}

impl Service {
    /// Starts or wakes the watching loop of a node.
    pub(crate) fn watch(self: &Arc<Self>, node: Uuid) {
        if !self.keep_watch(node) {
            self.watches.wake(node);
        }
    }

    /// Starts the watching loop of a node unless there is one; tells whether
    /// it did.
    pub(crate) fn keep_watch(self: &Arc<Self>, node: Uuid) -> bool {
        let mut map = self.watches.lock();
        if map.contains_key(&node) {
            return false;
        }
        let watch = Arc::new(Watch::default());
        map.insert(node, Arc::clone(&watch));
        drop(map);
        let svc = Arc::clone(self);
        self.spawn(async move { run(svc, node, watch).await });
        true
    }
}

async fn run(svc: Arc<Service>, node: Uuid, watch: Arc<Watch>) {
    let mut state = State::default();
    loop {
        svc.watches.pacer.turn().await;
        // Woken or not, there is something to look at. A look is large, and
        // most of its time a loop only sleeps: so it is not part of the loop.
        let next = Box::pin(step(&svc, node, &watch, &mut state)).await;
        let Some(pause) = next else { break };
        if pause > KEEP {
            state.client = None;
        }
        // An agent that calls often tells nothing new each time.
        let least = pause.min(svc.config.pace.agent_poll / 2);
        tokio::time::sleep(least).await;
        let _ = timeout(pause - least, watch.wake.notified()).await;
    }
    svc.watches.lock().remove(&node);
    // Somebody may have put the node into a wait state while this loop ended.
    if let Ok(Some(found)) = svc.store.node_by_uuid(node).await
        && is_watched(&found)
        && svc.owns(&found)
    {
        svc.watch(node);
    }
}

#[derive(Default)]
struct State {
    client: Option<(Who, agent::Client)>,
    silent_since: Option<Instant>,
    /// Since when an agent has its token and does not call.
    unheard_since: Option<Instant>,
    progress: Option<Value>,
}

/// What makes an agent another one.
#[derive(PartialEq)]
struct Who {
    url: String,
    pem: Option<String>,
    token: Secret,
}

fn kind_of(node: &Node) -> Option<Kind> {
    machine::is_waiting(node.provision_state)
        .then(|| Kind::of(node.provision_state))
        .flatten()
}

/// Whether an agent is waited for that can be asked.
fn is_watched(node: &Node) -> bool {
    kind_of(node).is_some() || node.provision_state == ProvisionState::RescueWait
}

/// One look. Gives the pause until the next, none when there is nothing to
/// watch.
async fn step(
    svc: &Arc<Service>,
    uuid: Uuid,
    watch: &Watch,
    state: &mut State,
) -> Option<Duration> {
    let pace = svc.config.pace;
    let poll = svc.watches.poll(pace.agent_poll);
    let node = match svc.store.node_by_uuid(uuid).await {
        Ok(found) => found?,
        Err(error) => {
            tracing::warn!(node = %uuid, err = %chain(&error), "node not read");
            return Some(poll);
        }
    };
    // Another conductor's node is watched there.
    if !is_watched(&node) || !svc.owns(&node) {
        return None;
    }
    if node.reservation.is_some() {
        // Somebody is at it; maybe this very moment ends it.
        return Some(pace.agent_poll.min(Duration::from_millis(250)));
    }
    if node.maintenance && !svc.config.conductor.allow_provisioning_in_maintenance {
        look(svc, uuid, Work::InMaintenance).await;
        return Some(poll);
    }
    let has_agent = internal::text(&node, internal::AGENT_URL).is_some();
    let unheard = internal::awaits_first_call(&node);
    let lost = token_is_lost(svc, unheard, watch, state);
    let idle = if unheard { poll } else { IDLE };
    let Some(kind) = kind_of(&node) else {
        if lost {
            look(svc, uuid, Work::Rescue { gone: true }).await;
        }
        if !has_agent {
            return Some(idle);
        }
        rescue(svc, &node, watch, state).await;
        return Some(poll);
    };
    let work = Work::Look { kind, gone: false };
    if limits::check(&svc.config.conductor, &node, kind).is_err() {
        // Unless it has just ended, which the look finds out.
        look(svc, uuid, work).await;
        return Some(poll);
    }
    match Wait::of(&node) {
        Some(Wait {
            what: Awaited::Agent | Awaited::Heartbeat { .. },
            ..
        }) if !has_agent => {
            if lost {
                look(svc, uuid, Work::Look { kind, gone: true }).await;
            }
            Some(idle)
        }
        Some(Wait {
            what: Awaited::Time { until: at } | Awaited::Poll { at },
            ..
        }) => {
            let left = Duration::try_from(at.duration_since(Timestamp::now()));
            if let Ok(left) = left
                && !left.is_zero()
            {
                return Some(left.min(IDLE));
            }
            look(svc, uuid, work).await;
            Some(poll)
        }
        None => {
            look(svc, uuid, work).await;
            Some(poll)
        }
        Some(wait) => {
            ask(svc, &node, kind, &wait, watch, state).await;
            Some(poll)
        }
    }
}

/// Whether the token that was handed out never reached the agent: the answer is
/// lost when the conductor dies while it gives it, and there is no second one.
/// `unheard`: whether an agent has its token and has not called.
fn token_is_lost(svc: &Service, unheard: bool, watch: &Watch, state: &mut State) -> bool {
    if !unheard {
        state.unheard_since = None;
        return false;
    }
    let since = *state.unheard_since.get_or_insert_with(|| {
        // What asked before may have been the agent of an earlier start.
        watch.looked_up.store(false, Ordering::Relaxed);
        Instant::now()
    });
    let pace = svc.config.pace;
    let hint = watch.looked_up.load(Ordering::Relaxed) && since.elapsed() > pace.agent_poll * 3;
    if !hint && since.elapsed() <= pace.agent_gone {
        return false;
    }
    watch.looked_up.store(false, Ordering::Relaxed);
    state.unheard_since = None;
    true
}

/// Asks the agent without the lock, and takes the lock only when something has
/// changed.
async fn ask(
    svc: &Arc<Service>,
    node: &Node,
    kind: Kind,
    wait: &Wait,
    watch: &Watch,
    state: &mut State,
) {
    let commands = match client(node, state) {
        Ok(client) => client.commands().await,
        Err(error) => Err(error),
    };
    let error = match commands {
        Ok(commands) => {
            state.silent_since = None;
            watch.looked_up.store(false, Ordering::Relaxed);
            let changed = match &wait.what {
                Awaited::Command { id } => match inband::fate(&commands, *id) {
                    Fate::Running(progress) => {
                        progress.is_some()
                            && progress != std::mem::replace(&mut state.progress, progress.clone())
                    }
                    _ => true,
                },
                Awaited::Agent => true,
                // Also read without the lock.
                Awaited::Heartbeat { since } => {
                    let called = stamps::called_since(svc, node, *since).await;
                    called.unwrap_or(false)
                }
                // Not the agent's.
                Awaited::Time { .. } | Awaited::Poll { .. } => false,
                Awaited::Idle => commands
                    .last()
                    .is_none_or(|c| c.command_status != CommandStatus::Running),
            };
            if changed {
                look(svc, node.uuid, Work::Look { kind, gone: false }).await;
            }
            return;
        }
        Err(error) => error,
    };
    // A step that cannot be repeated is better waited for until the time-out.
    let index = steps::index(node, kind).unwrap_or(0);
    let step = steps::steps(node, kind).and_then(|steps| steps.into_iter().nth(index));
    let repeatable = step.is_none_or(|step| list::is_repeatable(&step));
    if is_gone(svc, node, &error, repeatable, watch, state) {
        look(svc, node.uuid, Work::Look { kind, gone: true }).await;
    }
}

/// Asks the agent of a rescue whether it is there.
async fn rescue(svc: &Arc<Service>, node: &Node, watch: &Watch, state: &mut State) {
    let commands = match client(node, state) {
        Ok(client) => client.commands().await,
        Err(error) => Err(error),
    };
    let gone = match commands {
        Ok(_) => {
            state.silent_since = None;
            watch.looked_up.store(false, Ordering::Relaxed);
            false
        }
        // A rescue can always be begun anew.
        Err(error) if is_gone(svc, node, &error, true, watch, state) => true,
        Err(_) => return,
    };
    look(svc, node.uuid, Work::Rescue { gone }).await;
}

/// Whether the agent, which does not answer as it should, is known not to be
/// there any more.
fn is_gone(
    svc: &Service,
    node: &Node,
    error: &agent::Error,
    repeatable: bool,
    watch: &Watch,
    state: &mut State,
) -> bool {
    if error.is_stranger() {
        return true;
    }
    if !error.is_connection() {
        tracing::warn!(node = %node.uuid, err = %chain(error), "agent not asked");
        return false;
    }
    let silent = state
        .silent_since
        .get_or_insert_with(Instant::now)
        .elapsed();
    let pace = svc.config.pace;
    let hint = watch.looked_up.load(Ordering::Relaxed) && silent > pace.agent_poll * 3;
    repeatable && (hint || silent > pace.agent_gone)
}

fn client(node: &Node, state: &mut State) -> Result<agent::Client, agent::Error> {
    let url = internal::text(node, internal::AGENT_URL).ok_or(agent::Error::NoAgent)?;
    let who = Who {
        url: url.to_owned(),
        pem: internal::text(node, internal::AGENT_VERIFY_CA).map(str::to_owned),
        token: Secret::new(internal::text(node, internal::AGENT_TOKEN).unwrap_or_default()),
    };
    match &state.client {
        Some((known, client)) if *known == who => Ok(client.clone()),
        _ => {
            // Epoch 0: this one gives no commands.
            let client = agent::Client::new(&who.url, who.pem.as_deref(), who.token.clone(), 0)?;
            state.client = Some((who, client.clone()));
            Ok(client)
        }
    }
}

async fn look(svc: &Arc<Service>, node: Uuid, work: Work) {
    let Some(permit) = svc.workers.for_going_on().await else {
        // The conductor stops.
        return;
    };
    match Task::take(svc, node, svc.config.pace.lock_wait).await {
        Ok(task) => flows::run(task, work).await,
        Err(Error::Locked { .. } | Error::NotMine { .. }) => {}
        Err(error) => tracing::warn!(node = %node, err = %chain(&error), "node not locked"),
    }
    drop(permit);
    admission::nudge(svc);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Watch;
    use super::run;
    use crate::tests::rig::Rig;

    #[tokio::test]
    async fn loop_that_waits_is_small() {
        let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
        let service = Arc::clone(&rig.service);
        let waiting = run(service, uuid::Uuid::nil(), Arc::new(Watch::default()));
        let bytes = std::mem::size_of_val(&waiting);
        assert!(bytes < 4096, "{bytes} bytes for each node in a wait state");
    }
}
