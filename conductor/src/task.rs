//! A [`Task`] is the right to change one node: its lease, and the node as it
//! was read under it. It is the only writer of `provision_state`.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;
use wrought_rpc::Caller;
use wrought_store::history::HistoryEntry;
use wrought_store::journal::JournalEntry;
use wrought_store::journal::Phase;
use wrought_store::node::Node;
use wrought_store::part::Part;
use wrought_wire::secret::Secret;
use wrought_wire::state::ProvisionState;

use crate::agent;
use crate::error::Error;
use crate::internal;
use crate::lease::Fence;
use crate::lease::Held;
use crate::line;
use crate::machine;
use crate::machine::Event;
use crate::machine::Transition;
use crate::service::Service;

/// Rows that go into the same transaction as the node.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    journal: Vec<JournalEntry>,
    history: Vec<HistoryEntry>,
}

/// The right to change one node.
#[derive(Debug)]
pub struct Task {
    pub(crate) svc: Arc<Service>,
    pub(crate) node: Node,
    held: Held,
    /// The conductor that took charge of the node before this one did.
    former: Option<String>,
    notes: Notes,
    /// Who asked for what is done, for the history.
    caller: Caller,
}

impl Task {
    /// Takes the lock of a node that this conductor looks after, trying for
    /// `patience`, and reads the node. [`Error::NotMine`] for another's node.
    pub(crate) async fn take(
        svc: &Arc<Service>,
        node: Uuid,
        patience: Duration,
    ) -> Result<Self, Error> {
        svc.check_place(node).await?;
        let mut task = Self::take_any(svc, node, patience).await?;
        // It may have moved while its lock was waited for.
        if let Err(error) = svc.check_mine(&task.node) {
            task.release().await;
            return Err(error);
        }
        task.take_charge();
        Ok(task)
    }

    /// The same for any node: for what is done to its record alone.
    pub(crate) async fn take_any(
        svc: &Arc<Service>,
        node: Uuid,
        patience: Duration,
    ) -> Result<Self, Error> {
        let (lease, asked) = line::lock(svc, node, patience).await?;
        // From here on the lease is given back whatever happens.
        let held = Held::new(svc, lease, asked);
        let mut read = svc.store.node_by_uuid(node).await;
        if let Ok(Some(found)) = &mut read {
            internal::set(found, internal::LOCK_EPOCH, held.lease().epoch);
        }
        match read {
            Ok(Some(node)) => Ok(Self {
                svc: Arc::clone(svc),
                node,
                held,
                former: None,
                notes: Notes::default(),
                caller: Caller::current(),
            }),
            other => {
                let lease = held.lease().clone();
                drop(held);
                // The node is gone or the database is: nothing more to do.
                let _ = svc.store.unlock(lease).await;
                match other {
                    Err(source) => Err(store("read a node")(source)),
                    Ok(_) => Err(Error::NodeNotFound(node.to_string())),
                }
            }
        }
    }

    /// What is saved from now on says that this conductor has the node.
    fn take_charge(&mut self) {
        let own = self.svc.config.host.as_str();
        let before = self.node.conductor_affinity.take();
        self.former = before.filter(|before| before != own);
        self.node.conductor_affinity = Some(own.to_owned());
    }

    /// The conductor from which this one took the node over; none where it had
    /// it before, or is the first.
    pub(crate) fn former(&self) -> Option<&str> {
        self.former.as_deref()
    }

    /// The fence for whatever is done to the machine under this lock.
    pub(crate) fn fence(&self) -> Fence {
        self.held.fence()
    }

    /// Whether another piece of work may be begun: not while the conductor is
    /// leaving. Who looks after the node then goes on from its record.
    pub(crate) fn may_go_on(&self) -> Result<(), Error> {
        match self.svc.membership.is_leaving() {
            true => Err(Error::Ending(self.node.uuid)),
            false => Ok(()),
        }
    }

    /// Asks the database whether the lease is still ours; called just before
    /// anything is done to the machine.
    pub(crate) async fn confirm(&self) -> Result<(), Error> {
        let confirmed = self.held.confirm(&self.svc).await;
        confirmed.map_err(lost_or(self.node.uuid, "renew a lease"))
    }

    /// Adds a journal row to the next save.
    pub(crate) fn journal(&mut self, row: Row<'_>) {
        self.notes.journal.push(JournalEntry {
            node: self.node.uuid,
            kind: row.kind.to_owned(),
            step_index: row.index,
            step: row.step.to_owned(),
            attempt: row.attempt,
            phase: row.phase,
            detail: row.detail,
            at: Timestamp::now(),
        });
    }

    /// Adds a history row to the next save.
    pub(crate) fn history(&mut self, severity: &str, event_type: &str, event: &str) {
        self.note(severity, event_type, event, None);
    }

    /// The same for the end of what is going on: with the time that the running
    /// list of steps took, or the time in the present state where there is none.
    pub(crate) fn history_of_end(&mut self, severity: &str, event_type: &str, event: &str) {
        let node = &self.node;
        let entered = node.provision_updated_at;
        let began = internal::read::<Timestamp>(node, internal::BEGAN)
            .or(entered.filter(|_| !node.provision_state.is_stable()));
        self.note_since(severity, event_type, event, began);
    }

    /// The same for the end of a step.
    pub(crate) fn history_of_step(&mut self, severity: &str, event_type: &str, event: &str) {
        let began = internal::read::<Timestamp>(&self.node, internal::STEP_BEGAN);
        self.note_since(severity, event_type, event, began);
    }

    fn note_since(
        &mut self,
        severity: &str,
        event_type: &str,
        event: &str,
        began: Option<Timestamp>,
    ) {
        let lasted = began.and_then(|began| {
            let lasted = Timestamp::now().duration_since(began);
            Duration::try_from(lasted).ok()
        });
        self.note(severity, event_type, event, lasted);
    }

    fn note(&mut self, severity: &str, event_type: &str, event: &str, duration: Option<Duration>) {
        self.notes.history.push(HistoryEntry {
            uuid: Uuid::new_v4(),
            node: self.node.uuid,
            severity: Some(severity.to_owned()),
            event_type: Some(event_type.to_owned()),
            event: event.to_owned(),
            user: self.caller.user.clone(),
            conductor: Some(self.svc.config.host.clone()),
            created_at: Timestamp::now(),
            state: Some(self.node.provision_state),
            target: self.node.target_provision_state,
            project: None,
            duration,
        });
    }

    /// Sets `last_error` and notes it in the history.
    pub(crate) fn set_error(&mut self, event_type: &str, text: &str) {
        tracing::warn!(node = %self.node.uuid, err = text, "operation failed");
        self.history_of_end("ERROR", event_type, text);
        self.node.last_error = Some(text.to_owned());
    }

    /// Writes the node with the rows collected so far, in one transaction.
    pub(crate) async fn save(&mut self) -> Result<(), Error> {
        let notes = std::mem::take(&mut self.notes);
        let saved = self.svc.store.save_node_with(
            self.held.lease(),
            &mut self.node,
            &notes.journal,
            &notes.history,
        );
        let saved = saved.await;
        saved.map_err(self.fenced("save a node"))
    }

    /// Writes the node as the one that an allocation got. False when the
    /// allocation does not look for one any more: nothing is written then.
    pub(crate) async fn allocate(&mut self, allocation: Uuid) -> Result<bool, Error> {
        let notes = std::mem::take(&mut self.notes);
        let store = &self.svc.store;
        let given = store.allocate(
            self.held.lease(),
            &mut self.node,
            allocation,
            &notes.history,
        );
        let given = given.await;
        given.map_err(self.fenced("give a node to an allocation"))
    }

    /// Makes a reading the node's parts of a kind.
    pub(crate) async fn replace_parts<P: Part>(&self, parts: Vec<P>) -> Result<(), Error> {
        let replaced = self.svc.store.replace_parts(self.held.lease(), parts).await;
        replaced.map_err(self.fenced("store what the BMC told"))
    }

    /// Moves the node along the state machine and saves it. `target`
    /// overrides where it is going.
    pub(crate) async fn transition(
        &mut self,
        event: Event,
        target: Option<ProvisionState>,
    ) -> Result<Transition, Error> {
        let step = machine::next(self.node.provision_state, event)?.towards(target);
        self.node.provision_state = step.to;
        self.node.target_provision_state = step.target;
        self.node.provision_updated_at = Some(Timestamp::now());
        self.save().await?;
        let admission = &self.svc.admission;
        admission.moved(self.node.uuid, step.from, step.to);
        tracing::info!(
            node = %self.node.uuid,
            from = step.from.as_str(),
            to = step.to.as_str(),
            event = event.as_str(),
            "provision state changed"
        );
        Ok(step)
    }

    /// Reads the node anew, dropping unsaved changes.
    pub(crate) async fn reload(&mut self) -> Result<(), Error> {
        let read = self.svc.store.node_by_uuid(self.node.uuid).await;
        let found = read.map_err(store("read a node"))?;
        let uuid = self.node.uuid;
        self.node = found.ok_or_else(|| Error::NodeNotFound(uuid.to_string()))?;
        let epoch = self.held.lease().epoch;
        internal::set(&mut self.node, internal::LOCK_EPOCH, epoch);
        self.node.conductor_affinity = Some(self.svc.config.host.clone());
        self.notes = Notes::default();
        Ok(())
    }

    /// Gives the lock back.
    pub(crate) async fn release(self) {
        let (svc, node) = (Arc::clone(&self.svc), self.node.uuid);
        let lease = self.held.lease().clone();
        self.held.let_go();
        // Counted until it is given back.
        let unlocked = svc.store.unlock(lease).await;
        drop(self);
        if let Err(error) = unlocked {
            // It runs out by itself.
            tracing::warn!(%node, err = %crate::error::chain(&error), "lock not given back");
        }
    }

    /// Deletes the node, which ends the lease.
    pub(crate) async fn destroy(self) -> Result<(), Error> {
        self.held.let_go();
        let destroyed = self.svc.store.destroy_node(self.held.lease()).await;
        destroyed.map_err(self.fenced("delete a node"))
    }

    /// Whether an agent has called since the machine was last started.
    pub(crate) fn node_has_agent(&self) -> bool {
        internal::text(&self.node, internal::AGENT_URL).is_some()
    }

    /// The agent of the node, fenced by this lease.
    pub(crate) fn agent(&self) -> Result<agent::Client, Error> {
        client_for(&self.node, self.held.lease().epoch)
    }

    /// What a write under the lease gives that failed; one that was refused is
    /// counted.
    fn fenced(&self, action: &'static str) -> impl Fn(wrought_store::Error) -> Error + use<> {
        let (svc, node) = (Arc::clone(&self.svc), self.node.uuid);
        move |source| {
            if matches!(source, wrought_store::Error::LeaseLost { .. }) {
                svc.fenced.refused();
                tracing::warn!(%node, action, "write refused: the lease is lost");
            }
            lost_or(node, action)(source)
        }
    }
}

/// A lost lease, or an error of the database.
fn lost_or(node: Uuid, action: &'static str) -> impl Fn(wrought_store::Error) -> Error {
    move |source| match source {
        wrought_store::Error::LeaseLost { .. } => Error::LeaseLost(node),
        source => store(action)(source),
    }
}

/// One journal row.
pub(crate) struct Row<'a> {
    pub(crate) kind: &'a str,
    pub(crate) index: u32,
    pub(crate) step: &'a str,
    pub(crate) attempt: u32,
    pub(crate) phase: Phase,
    pub(crate) detail: Option<String>,
}

/// Wraps an error of the database.
pub(crate) fn store(action: &'static str) -> impl Fn(wrought_store::Error) -> Error {
    move |source| Error::Store {
        action,
        source: Box::new(source),
    }
}

/// A client for the agent that a node's record tells of.
pub(crate) fn client_for(node: &Node, epoch: i64) -> Result<agent::Client, Error> {
    let wrap = |source| Error::Agent {
        node: node.uuid,
        action: "find it".to_owned(),
        source,
    };
    let url = internal::text(node, internal::AGENT_URL);
    let url = url.ok_or_else(|| wrap(agent::Error::NoAgent))?;
    let token = internal::text(node, internal::AGENT_TOKEN).unwrap_or_default();
    let pem = internal::text(node, internal::AGENT_VERIFY_CA);
    agent::Client::new(url, pem, Secret::new(token), epoch).map_err(wrap)
}
