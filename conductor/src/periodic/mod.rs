//! Periodic tasks: a table, and one runner. A task never overlaps with itself,
//! an error or a panic ends one round of it and no more, and each tells how it
//! fares (`meters`).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream;
use wrought_store::node::Node;

use crate::admission;
use crate::allocations;
use crate::config;
use crate::error::Error;
use crate::error::chain;
use crate::service::Service;
use crate::stamps;

mod boot_retry;
mod boot_server;
mod conductors;
mod history;
pub(crate) mod meters;
pub(crate) mod pages;
mod power_recovery;
pub(crate) mod power_sync;
mod stuck;
mod timeouts;

pub(crate) use boot_retry::is_lost as boot_came_to_nothing;

/// What a round of a task gives: how many nodes it has looked at.
type Round<'a> = BoxFuture<'a, Result<u64, Error>>;

/// A periodic task.
pub(crate) struct Chore {
    /// Its name in logs and metrics; Ironic's, where it has one.
    name: &'static str,
    /// Seconds between two rounds by the configuration; 0: never.
    every: fn(&config::Conductor) -> u64,
    /// One round.
    run: for<'a> fn(&'a Arc<Service>) -> Round<'a>,
}

/// All of them. Another one is one line here.
#[rustfmt::skip]
const CHORES: &[Chore] = &[
    Chore { name: "write_heartbeats", every: |_| 1, run: |svc| Box::pin(write_heartbeats(svc)) },
    Chore { name: "sync_power_states", every: |c| c.power_sync_interval, run: |svc| Box::pin(power_sync::run(svc)) },
    Chore { name: "handle_sync_power_status", every: |c| c.power_sync_mark_interval, run: |svc| Box::pin(power_sync::mark(svc)) },
    Chore { name: "power_failure_recovery", every: |c| c.power_failure_recovery_interval, run: |svc| Box::pin(power_recovery::run(svc)) },
    Chore { name: "check_deploy_timeouts", every: |c| c.check_interval, run: |svc| Box::pin(timeouts::deploy(svc)) },
    Chore { name: "check_clean_timeouts", every: |c| c.check_interval, run: |svc| Box::pin(timeouts::clean(svc)) },
    Chore { name: "check_service_timeouts", every: |c| c.check_interval, run: |svc| Box::pin(timeouts::service(svc)) },
    Chore { name: "check_inspect_timeouts", every: |c| c.check_interval, run: |svc| Box::pin(timeouts::inspect(svc)) },
    Chore { name: "check_rescue_timeouts", every: |c| c.check_rescue_state_interval, run: |svc| Box::pin(timeouts::rescue(svc)) },
    Chore { name: "check_stuck_nodes", every: |c| c.check_interval, run: |svc| Box::pin(stuck::check(svc)) },
    Chore { name: "check_boot_servers", every: |c| c.check_interval, run: |svc| Box::pin(boot_server::check(svc)) },
    Chore { name: "check_allocations", every: |c| c.check_allocations_interval, run: |svc| Box::pin(allocations::take_up(svc)) },
    Chore { name: "admit_queued_nodes", every: |c| c.queue_check_interval, run: |svc| Box::pin(admission::advance(svc)) },
    Chore { name: "retry_pxe_boot", every: boot_retry::every, run: |svc| Box::pin(boot_retry::run(svc)) },
    Chore { name: "trim_node_history", every: |c| c.node_history_cleanup_interval, run: |svc| Box::pin(history::trim(svc)) },
    Chore { name: "clean_up_conductors", every: |c| c.conductor_cleanup_interval, run: |svc| Box::pin(conductors::forget(svc)) },
];

/// A task that comes seldom is first run soon: a server that is restarted
/// every day would else never run it.
const SOON: Duration = Duration::from_secs(600);

/// Starts all of them.
pub(crate) fn start(svc: &Arc<Service>) {
    for chore in CHORES {
        start_one(svc, chore);
    }
}

/// Starts one.
pub(crate) fn start_one(svc: &Arc<Service>, chore: &'static Chore) {
    let seconds = (chore.every)(&svc.config.conductor);
    if seconds == 0 {
        return;
    }
    let every = Duration::from_secs(seconds);
    let owner = Arc::clone(svc);
    svc.spawn_chore(async move {
        tokio::time::sleep(jitter(every.min(SOON))).await;
        loop {
            round(&owner, chore).await;
            // From its end: a round that takes long does not follow itself.
            tokio::time::sleep(jitter(every)).await;
        }
    });
}

/// One round with its figures.
async fn round(svc: &Arc<Service>, chore: &'static Chore) {
    let meter = svc.meters.of(chore.name);
    let running = meter.begin();
    let outcome = AssertUnwindSafe((chore.run)(svc)).catch_unwind().await;
    match outcome {
        Ok(Ok(nodes)) => running.done(nodes),
        Ok(Err(error)) => {
            running.failed();
            tracing::warn!(task = chore.name, err = %chain(&error), "periodic task failed");
        }
        Err(_) => {
            running.failed();
            tracing::error!(
                task = chore.name,
                "periodic task panicked; it is tried again"
            );
        }
    }
}

/// The time, a tenth more or less: tasks and conductors that began together
/// drift apart.
fn jitter(time: Duration) -> Duration {
    let mut bytes = [0u8; 2];
    if getrandom::fill(&mut bytes).is_err() {
        return time;
    }
    let share = f64::from(u16::from_le_bytes(bytes)) / f64::from(u16::MAX);
    time.mul_f64(0.9 + 0.2 * share)
}

/// Does the same with each of the things, `workers` at a time.
async fn each<T, F>(workers: usize, things: impl IntoIterator<Item = T>, work: impl Fn(T) -> F)
where
    F: Future<Output = ()>,
{
    stream::iter(things)
        .for_each_concurrent(workers.max(1), work)
        .await;
}

/// Whether this conductor may work on the node now.
fn is_free(svc: &Service, node: &Node) -> bool {
    node.reservation.is_none() && svc.owns(node)
}

/// A count as figures take it.
fn count(many: usize) -> u64 {
    u64::try_from(many).unwrap_or(u64::MAX)
}

async fn write_heartbeats(svc: &Arc<Service>) -> Result<u64, Error> {
    Ok(count(stamps::flush(svc).await))
}

/// Everything that time-outs and conductors that died leave to be done, at
/// once.
#[cfg(test)]
pub(crate) async fn check_timeouts(svc: &Arc<Service>) {
    for check in [
        "check_deploy_timeouts",
        "check_clean_timeouts",
        "check_service_timeouts",
        "check_inspect_timeouts",
        "check_rescue_timeouts",
        "check_stuck_nodes",
    ] {
        run_now(svc, check).await;
    }
}

/// One round of the task with that name.
#[cfg(test)]
pub(crate) async fn run_now(svc: &Arc<Service>, name: &str) {
    let chore = CHORES.iter().find(|chore| chore.name == name);
    round(svc, chore.expect("a task of that name")).await;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::CHORES;
    use super::Chore;
    use super::jitter;
    use super::start_one;
    use crate::config;
    use crate::error::Error;
    use crate::service::Service;
    use crate::tests::rig::Rig;

    static ROUNDS: AtomicU64 = AtomicU64::new(0);
    static RUNNING: AtomicU64 = AtomicU64::new(0);
    static MOST: AtomicU64 = AtomicU64::new(0);

    static SLOW: Chore = Chore {
        name: "slow",
        every: |_| 1,
        run: |svc| Box::pin(slow(svc)),
    };

    /// Takes longer than the time between two rounds.
    async fn slow(_: &Arc<Service>) -> Result<u64, Error> {
        let running = RUNNING.fetch_add(1, Ordering::SeqCst) + 1;
        MOST.fetch_max(running, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        RUNNING.fetch_sub(1, Ordering::SeqCst);
        ROUNDS.fetch_add(1, Ordering::SeqCst);
        Ok(1)
    }

    #[tokio::test]
    async fn a_task_never_overlaps_with_itself() {
        let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
        start_one(&rig.service, &SLOW);
        rig.until("two rounds", async || ROUNDS.load(Ordering::SeqCst) >= 2)
            .await;
        assert_eq!(MOST.load(Ordering::SeqCst), 1);
        assert!(rig.service.meters.of("slow").read().last >= Duration::from_millis(1500));
    }

    static TRIES: AtomicU64 = AtomicU64::new(0);

    static BAD: Chore = Chore {
        name: "bad",
        every: |_| 1,
        run: |svc| Box::pin(bad(svc)),
    };

    async fn bad(_: &Arc<Service>) -> Result<u64, Error> {
        match TRIES.fetch_add(1, Ordering::SeqCst) {
            0 => Err(Error::Step("the first round fails".to_owned())),
            1 => panic!("the second round panics"),
            _ => Ok(5),
        }
    }

    #[tokio::test]
    async fn an_error_or_a_panic_ends_one_round_only() {
        let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
        start_one(&rig.service, &BAD);
        let meter = rig.service.meters.of("bad");
        rig.until("three rounds", async || meter.read().runs >= 3)
            .await;
        let figures = meter.read();
        assert_eq!((figures.failures, figures.running), (2, 0));
        assert_eq!(figures.nodes, 5 * (figures.runs - 2));
        assert!(figures.ended.is_some());
    }

    #[test]
    fn rounds_are_spread() {
        let times: BTreeSet<Duration> = (0..50).map(|_| jitter(Duration::from_secs(100))).collect();
        assert!(times.len() > 10);
        assert!(*times.first().unwrap() >= Duration::from_secs(90));
        assert!(*times.last().unwrap() <= Duration::from_millis(110_001));
    }

    #[test]
    fn each_task_has_a_name_of_its_own_and_its_default_interval() {
        let names: BTreeSet<&str> = CHORES.iter().map(|chore| chore.name).collect();
        assert_eq!(names.len(), CHORES.len());
        let config = config::Conductor::default();
        for (name, seconds) in [
            ("sync_power_states", 60),
            ("handle_sync_power_status", 60),
            ("power_failure_recovery", 300),
            ("check_deploy_timeouts", 60),
            ("check_clean_timeouts", 60),
            ("check_service_timeouts", 60),
            ("check_inspect_timeouts", 60),
            ("check_rescue_timeouts", 60),
            ("check_allocations", 60),
            ("trim_node_history", 86400),
            ("clean_up_conductors", 86400),
            // Off until boot_retry_timeout is set.
            ("retry_pxe_boot", 0),
        ] {
            let chore = CHORES.iter().find(|chore| chore.name == name).unwrap();
            assert_eq!((chore.every)(&config), seconds, "{name}");
        }
        let config = config::Conductor {
            boot_retry_timeout: 600,
            ..config
        };
        assert_eq!(super::boot_retry::every(&config), 90);
    }
}
