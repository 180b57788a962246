//! Admission: how many nodes may be deployed, cleaned and inspected at the same
//! time. What finds no place waits in the lane of its kind, first come, first
//! served; the node is in the transitional state already and is not locked.
//!
//! The lanes stand in the database (`provision_queue`), so that a restart keeps
//! the order, and conductors that share a database share the limits. A place
//! is taken in memory before the node's state is written, so that requests
//! that come together do not all see the same free place.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;
use wrought_store::node::Node;
use wrought_wire::state::ProvisionState;
use wrought_wire::state::Verb;

use crate::config;
use crate::error::Error;
use crate::error::chain;
use crate::flows;
use crate::flows::Permit;
use crate::flows::Work;
use crate::internal;
use crate::machine;
use crate::machine::Effect;
use crate::machine::Event;
use crate::machine::Transition;
use crate::service::Service;
use crate::steps;
use crate::steps::Kind;
use crate::task::Task;
use crate::task::store;

/// Nodes of a lane that are looked at together.
const AT_ONCE: u32 = 100;

/// A kind of operation whose number is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// Deploying and rebuilding.
    Deploy,
    /// Cleaning, also after a tear-down.
    Clean,
    /// Inspecting.
    Inspect,
}

impl Lane {
    /// Each of them.
    pub(crate) const ALL: [Self; 3] = [Self::Deploy, Self::Clean, Self::Inspect];

    /// The lane of what an edge of the state machine begins.
    pub(crate) const fn of(effect: Effect) -> Option<Self> {
        match effect {
            Effect::Deploy => Some(Self::Deploy),
            Effect::Clean => Some(Self::Clean),
            Effect::Inspect => Some(Self::Inspect),
            _ => None,
        }
    }

    /// Its name in the database and in figures.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Deploy => "deploy",
            Self::Clean => "clean",
            Self::Inspect => "inspect",
        }
    }

    /// What its nodes were kept from.
    const fn effect(self) -> Effect {
        match self {
            Self::Deploy => Effect::Deploy,
            Self::Clean => Effect::Clean,
            Self::Inspect => Effect::Inspect,
        }
    }

    /// States in which a node has a place, the one in which it waits first.
    const fn states(self) -> [ProvisionState; 2] {
        use ProvisionState as S;
        match self {
            Self::Deploy => [S::Deploying, S::DeployWait],
            Self::Clean => [S::Cleaning, S::CleanWait],
            Self::Inspect => [S::Inspecting, S::InspectWait],
        }
    }

    fn of_state(state: ProvisionState) -> Option<Self> {
        let has = |lane: &Self| lane.states().contains(&state);
        Self::ALL.into_iter().find(has)
    }

    /// Places; 0: any number.
    const fn limit(self, config: &config::Conductor) -> usize {
        match self {
            Self::Deploy => config.max_concurrent_deploy,
            Self::Clean => config.max_concurrent_clean,
            Self::Inspect => config.max_concurrent_inspect,
        }
    }

    /// Event type in the history.
    const fn event_type(self) -> &'static str {
        match self {
            Self::Deploy => "deploying",
            Self::Clean => "cleaning",
            Self::Inspect => "introspection",
        }
    }
}

/// What became of a node that asked for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It has one.
    Now,
    /// It waits.
    Queued,
}

/// Who may be sent away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A request; without a free worker it waits as well, and it is refused
    /// when the lane is full.
    Request {
        /// Whether there is a worker for it.
        worker: bool,
    },
    /// A flow that has a worker and goes on to this; it is never refused.
    Flow,
}

/// The places that this conductor has given.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Whether the node's state shows the place already.
    held: Mutex<HashMap<(Lane, Uuid), bool>>,
    /// One look at the lanes at a time.
    turn: tokio::sync::Mutex<()>,
    /// Whether anybody may be waiting.
    waiting: AtomicBool,
    /// Whether a look at the lanes is due already.
    nudged: AtomicBool,
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            held: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            // Of an earlier life.
            waiting: AtomicBool::new(true),
            nudged: AtomicBool::new(false),
        }
    }
}

impl Admission {
    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<(Lane, Uuid), bool>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, lane: Lane, node: Uuid) {
        self.held().remove(&(lane, node));
    }

    /// Takes note of a written change of state.
    pub(crate) fn moved(&self, node: Uuid, from: ProvisionState, to: ProvisionState) {
        let (from, to) = (Lane::of_state(from), Lane::of_state(to));
        if from.is_none() && to.is_none() {
            return;
        }
        let mut held = self.held();
        if let Some(seen) = to.and_then(|lane| held.get_mut(&(lane, node))) {
            *seen = true;
        }
        if let Some(lane) = from.filter(|_| from != to) {
            held.remove(&(lane, node));
        }
    }

    /// Takes a place of the lane for the node, if there is one.
    /// `aside`: places that are left to nodes of other conductors, which have
    /// waited longer.
    async fn take(
        &self,
        svc: &Service,
        lane: Lane,
        node: Uuid,
        aside: usize,
    ) -> Result<bool, Error> {
        let limit = lane.limit(&svc.config.conductor);
        if limit == 0 {
            return Ok(true);
        }
        let seen: Vec<Uuid> = {
            let held = self.held();
            let of_lane = held.iter().filter(|((of, _), seen)| *of == lane && **seen);
            of_lane.map(|((_, node), _)| *node).collect()
        };
        let working = svc.store.nodes_at_work(&lane.states()).await;
        let working = working.map_err(store("list nodes at work"))?;
        let mut held = self.held();
        for node in seen.iter().filter(|node| !working.contains(node)) {
            // Another conductor, or the end of the node, was its end.
            held.remove(&(lane, *node));
        }
        let others = working
            .iter()
            .filter(|other| !held.contains_key(&(lane, **other)))
            .count();
        let own = held.keys().filter(|(of, _)| *of == lane).count();
        if others + own + aside >= limit {
            return Ok(false);
        }
        held.insert((lane, node), false);
        Ok(true)
    }
}

/// Whether the node waits for a place.
pub(crate) fn is_queued(node: &Node) -> bool {
    node.driver_internal_info.contains_key(internal::QUEUED_AT)
}

/// Takes a place for the node, or puts it into the lane. The caller writes the
/// node, whose state changes with it, or calls [`cancel`].
pub(crate) async fn enter(task: &mut Task, lane: Lane, asker: Asker) -> Result<Entry, Error> {
    let svc = Arc::clone(&task.svc);
    let node = task.node.uuid;
    let length = svc.store.queue_length(lane.name()).await;
    let length = length.map_err(store("look at a queue"))?;
    let worker = asker != Asker::Request { worker: false };
    // Who comes later does not go before those who wait.
    if worker && length == 0 && svc.admission.take(&svc, lane, node, 0).await? {
        return Ok(Entry::Now);
    }
    let most = svc.config.conductor.provision_queue_size;
    if asker != Asker::Flow && length >= most {
        return Err(Error::Busy(format!(
            "Node {node} cannot be taken for {0}: the limit of concurrent {0} operations is \
             reached, and {length} nodes wait already. Please retry later.",
            lane.name()
        )));
    }
    let now = Timestamp::now();
    let queued = svc.store.enqueue(node, lane.name(), now).await;
    queued.map_err(store("queue a node"))?;
    internal::set(&mut task.node, internal::QUEUED_AT, now.to_string());
    internal::set(&mut task.node, internal::QUEUE_POSITION, length + 1);
    svc.admission.waiting.store(true, Ordering::Relaxed);
    tracing::info!(%node, lane = lane.name(), position = length + 1, "node queued");
    Ok(Entry::Queued)
}

/// What a verb that lets a node leave its queue does to it: an abort ends what
/// was not begun, and an instance whose deploy was not begun can be deleted as
/// after a deploy that failed.
pub(crate) fn way_out(node: &Node, verb: Verb) -> Option<Transition> {
    use ProvisionState as S;
    if !is_queued(node) {
        return None;
    }
    let (state, event) = match (verb, node.provision_state) {
        (Verb::Abort, state) => (state, Event::Fail),
        (Verb::Deleted | Verb::Undeploy, S::Deploying) => (S::DeployFail, Event::Delete),
        _ => return None,
    };
    machine::next(state, event).ok()
}

/// Takes a node that waits out of its lane: what it was kept from has failed,
/// without anything having been done.
pub(crate) async fn give_up(task: &mut Task) -> Result<(), Error> {
    let Some(lane) = Lane::of_state(task.node.provision_state) else {
        return Ok(());
    };
    let text = match lane {
        Lane::Inspect => {
            "Inspection was aborted by request while it waited for its turn".to_owned()
        }
        lane => format!(
            "By request, the {} operation was aborted while it waited for its turn",
            lane.name()
        ),
    };
    task.set_error(lane.event_type(), &text);
    let node = &mut task.node;
    if let Some(kind) = Kind::of(node.provision_state) {
        steps::forget(node, kind);
    }
    let keys = [
        internal::QUEUED_AT,
        internal::QUEUE_POSITION,
        flows::deploy::REQUESTED,
    ];
    internal::clear(node, &keys);
    let target = node.target_provision_state;
    task.transition(Event::Fail, target).await?;
    tracing::info!(node = %task.node.uuid, lane = lane.name(), "node left the queue by request");
    // A row without a waiting node is dropped when its turn comes.
    let left = task.svc.store.dequeue(task.node.uuid).await;
    left.map(|_| ())
        .map_err(store("take a node out of a queue"))
}

/// Gives back what [`enter`] took, when the node's new state was not written.
pub(crate) async fn cancel(task: &Task, lane: Lane) {
    task.svc.admission.leave(lane, task.node.uuid);
    if let Err(error) = task.svc.store.dequeue(task.node.uuid).await {
        // A row without a waiting node is dropped when its turn comes.
        tracing::warn!(node = %task.node.uuid, err = %chain(&error), "node not taken out of the queue");
    }
}

/// Puts a node that waits back into its lane, should it not be there.
pub(crate) async fn keep_place(svc: &Service, node: &Node) -> Result<(), Error> {
    let at = internal::read(node, internal::QUEUED_AT).unwrap_or_else(Timestamp::now);
    let Some(lane) = Lane::of_state(node.provision_state) else {
        return Ok(());
    };
    svc.admission.waiting.store(true, Ordering::Relaxed);
    let kept = svc.store.enqueue(node.uuid, lane.name(), at).await;
    kept.map_err(store("queue a node"))
}

/// Something has ended: looks whether somebody waits for it.
pub(crate) fn nudge(svc: &Arc<Service>) {
    let waiting = svc.admission.waiting.load(Ordering::Relaxed);
    if !waiting || svc.admission.nudged.swap(true, Ordering::Relaxed) {
        return;
    }
    let owner = Arc::clone(svc);
    svc.spawn(async move {
        if let Err(error) = advance(&owner).await {
            tracing::warn!(err = %chain(&error), "queues not looked at");
        }
    });
}

/// Gives free places to those who wait longest. Tells how many it looked at.
pub(crate) async fn advance(svc: &Arc<Service>) -> Result<u64, Error> {
    let _turn = svc.admission.turn.lock().await;
    svc.admission.nudged.store(false, Ordering::Relaxed);
    svc.admission.waiting.store(false, Ordering::Relaxed);
    let mut looked = 0;
    for lane in Lane::ALL {
        let rest = drain(svc, lane, &mut looked).await;
        if !matches!(rest, Ok(false)) {
            svc.admission.waiting.store(true, Ordering::Relaxed);
        }
        rest?;
    }
    Ok(looked)
}

/// The same for one lane; tells whether anybody is left.
async fn drain(svc: &Arc<Service>, lane: Lane, looked: &mut u64) -> Result<bool, Error> {
    loop {
        let queued = svc.store.queued(lane.name(), AT_ONCE).await;
        let queued = queued.map_err(store("look at a queue"))?;
        if queued.is_empty() {
            return Ok(false);
        }
        let mut moved = false;
        let mut aside = 0;
        for node in queued {
            *looked += 1;
            match admit(svc, lane, node, aside).await? {
                Admitted::Gone => moved = true,
                Admitted::Skipped => {}
                Admitted::Others => aside += 1,
                Admitted::Full => return Ok(true),
            }
        }
        if !moved {
            return Ok(true);
        }
    }
}

enum Admitted {
    /// It is out of the lane.
    Gone,
    /// Somebody has it locked.
    Skipped,
    /// Another conductor looks after it.
    Others,
    /// There is no place, or no worker.
    Full,
}

async fn admit(
    svc: &Arc<Service>,
    lane: Lane,
    node: Uuid,
    aside: usize,
) -> Result<Admitted, Error> {
    let Ok(permit) = svc.permit() else {
        return Ok(Admitted::Full);
    };
    if !svc.admission.take(svc, lane, node, aside).await? {
        return Ok(Admitted::Full);
    }
    let outcome = match Task::take(svc, node, Duration::ZERO).await {
        Ok(task) => begin(svc, task, lane, permit).await,
        Err(Error::Locked { .. }) => Ok(Admitted::Skipped),
        Err(Error::NotMine { .. }) => Ok(Admitted::Others),
        Err(error) => Err(error),
    };
    if !matches!(outcome, Ok(Admitted::Gone)) {
        svc.admission.leave(lane, node);
    }
    outcome
}

/// Begins what the node was kept from.
async fn begin(
    svc: &Arc<Service>,
    mut task: Task,
    lane: Lane,
    permit: Permit,
) -> Result<Admitted, Error> {
    let node = task.node.uuid;
    let waits = is_queued(&task.node) && task.node.provision_state == lane.states()[0];
    let stopped = task.node.maintenance && !svc.config.conductor.allow_provisioning_in_maintenance;
    if waits {
        let since: Option<Timestamp> = internal::read(&task.node, internal::QUEUED_AT);
        let now = Timestamp::now();
        let waited = since.map_or(0, |since| now.duration_since(since).as_secs());
        internal::clear(
            &mut task.node,
            &[internal::QUEUED_AT, internal::QUEUE_POSITION],
        );
        // From now on silence counts.
        task.node.provision_updated_at = Some(now);
        let text = format!("Begins after {waited} s in the queue");
        task.history("INFO", lane.event_type(), &text);
        if let Err(error) = task.save().await {
            task.release().await;
            return Err(error);
        }
    }
    if let Err(error) = svc.store.dequeue(node).await {
        task.release().await;
        return Err(store("take a node out of a queue")(error));
    }
    if !waits {
        svc.admission.leave(lane, node);
        task.release().await;
        return Ok(Admitted::Gone);
    }
    if let Some(seen) = svc.admission.held().get_mut(&(lane, node)) {
        *seen = true;
    }
    tracing::info!(%node, lane = lane.name(), "node begins after its time in the queue");
    let work = match stopped && lane != Lane::Inspect {
        true => Work::InMaintenance,
        false => Work::Start(lane.effect()),
    };
    flows::spawn(svc, task, work, permit);
    Ok(Admitted::Gone)
}
