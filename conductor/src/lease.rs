//! A node's lock while it is held: renewed in time, counted, and a fence around
//! what is done under it.
//!
//! A process that was stopped for a while does not know that its lease has run
//! out until it asks. So the fence does not let work go on, not for one step of
//! the machine, after the moment until which the lease was last known to hold:
//! first the database has to say that it still does.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::task::Poll;

use tokio::sync::Notify;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;
use wrought_store::lock::Lease;

use crate::error::Error;
use crate::error::chain;
use crate::service::Service;

/// What is known of a lease.
#[derive(Debug, Clone, Copy)]
enum Hold {
    /// It holds until then, by our own clock and the time at which it was
    /// asked for: never later than the database has it.
    Until(Instant),
    /// It is somebody else's, or nobody's.
    Lost,
}

#[derive(Debug)]
struct Shared {
    hold: watch::Sender<Hold>,
    /// Has the lease renewed now.
    hurry: Notify,
}

/// Locks that a conductor holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

impl Count {
    /// How many there are.
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Writes that the database refused because the lease that they named was not
/// this conductor's any more.
#[derive(Debug, Default)]
pub(crate) struct Fenced(AtomicU64);

impl Fenced {
    /// One more.
    pub(crate) fn refused(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A lock that is held. Dropped without [`Held::end`], it is left to run out.
#[derive(Debug)]
pub(crate) struct Held {
    lease: Lease,
    shared: Arc<Shared>,
    renewer: JoinHandle<()>,
    count: Count,
}

impl Held {
    /// Begins to renew a lease that was asked for at `asked`.
    pub(crate) fn new(svc: &Arc<Service>, lease: Lease, asked: Instant) -> Self {
        let (hold, _) = watch::channel(Hold::Until(asked + lease.ttl));
        let shared = Arc::new(Shared {
            hold,
            hurry: Notify::new(),
        });
        let renewal = renew(Arc::clone(svc), lease.clone(), Arc::clone(&shared));
        let count = svc.held.clone();
        count.0.fetch_add(1, Ordering::SeqCst);
        Self {
            lease,
            shared,
            renewer: tokio::spawn(renewal),
            count,
        }
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Renews it no more: it is about to be given back.
    pub(crate) fn let_go(&self) {
        self.renewer.abort();
    }

    /// Asks the database whether the lease is still ours, and lets it run for
    /// its whole time again.
    pub(crate) async fn confirm(&self, svc: &Service) -> Result<(), wrought_store::Error> {
        let asked = Instant::now();
        let renewed = svc.store.renew(&self.lease).await;
        tell(svc, &self.shared, &self.lease, asked, &renewed);
        renewed
    }

    /// The fence for work under this lease.
    pub(crate) fn fence(&self) -> Fence {
        Fence {
            node: self.lease.node,
            hold: self.shared.hold.subscribe(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.renewer.abort();
        self.count.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Lets work go on only while the lease is known to hold.
#[derive(Debug)]
pub(crate) struct Fence {
    node: Uuid,
    hold: watch::Receiver<Hold>,
    shared: Arc<Shared>,
}

impl Fence {
    /// Does the work, or drops it with [`Error::LeaseLost`] where it is when
    /// the lease is lost.
    pub(crate) async fn guard<T>(
        mut self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut work = pin!(work);
        loop {
            let until = match *self.hold.borrow_and_update() {
                Hold::Until(until) => until,
                Hold::Lost => return Err(Error::LeaseLost(self.node)),
            };
            if Instant::now() >= until {
                tracing::warn!(node = %self.node, "lease overdue, work waits until it is renewed");
                self.shared.hurry.notify_one();
                if self.hold.changed().await.is_err() {
                    return Err(Error::LeaseLost(self.node));
                }
                continue;
            }
            let step = poll_fn(|context| {
                // Looked at each time, however long this thread did not run.
                if Instant::now() >= until {
                    return Poll::Ready(None);
                }
                work.as_mut().poll(context).map(Some)
            });
            tokio::select! {
                biased;
                changed = self.hold.changed() => {
                    if changed.is_err() {
                        return Err(Error::LeaseLost(self.node));
                    }
                }
                done = step => {
                    if let Some(outcome) = done {
                        return outcome;
                    }
                }
            }
        }
    }
}

async fn renew(svc: Arc<Service>, lease: Lease, shared: Arc<Shared>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(svc.config.pace.renew) => {}
            () = shared.hurry.notified() => {}
        }
        let asked = Instant::now();
        let renewed = svc.store.renew(&lease).await;
        tell(&svc, &shared, &lease, asked, &renewed);
        match renewed {
            Ok(()) => {}
            Err(wrought_store::Error::LeaseLost { .. }) => return,
            Err(error) => {
                // The database does not answer: nobody else can have it either.
                tracing::warn!(node = %lease.node, err = %chain(&error), "lease not renewed");
                shared.hurry.notify_one();
                tokio::time::sleep(svc.config.pace.renew.min(AGAIN)).await;
            }
        }
    }
}

/// Between two tries to renew a lease that the database failed.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

fn tell(
    svc: &Service,
    shared: &Shared,
    lease: &Lease,
    asked: Instant,
    renewed: &Result<(), wrought_store::Error>,
) {
    let known = match renewed {
        Ok(()) => Hold::Until(asked + lease.ttl),
        Err(wrought_store::Error::LeaseLost { .. }) => {
            svc.fenced.refused();
            tracing::warn!(node = %lease.node, epoch = lease.epoch, "renewal refused: lease lost");
            Hold::Lost
        }
        Err(_) => return,
    };
    shared.hold.send_modify(|hold| match (*hold, known) {
        // What is lost stays so, and an answer that comes late says no less
        // than one that was asked for after it.
        (Hold::Lost, _) => {}
        (Hold::Until(before), Hold::Until(until)) if before > until => {}
        (_, known) => *hold = known,
    });
}
