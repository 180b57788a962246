//! Periodic tasks. None overlaps with itself; each ends with the conductor.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::error::chain;
use crate::service::Service;
use crate::stamps;

pub(crate) mod pages;
pub(crate) mod power_sync;
mod timeouts;

#[cfg(test)]
pub(crate) use timeouts::check as check_timeouts;

/// Seconds that a heartbeat waits at most to be written.
const STAMPS: u64 = 1;

#[derive(Debug, Clone, Copy)]
enum Chore {
    Stamps,
    Timeouts,
    Allocations,
    PowerSync,
}

/// Starts all of them.
pub(crate) fn start(svc: &Arc<Service>) {
    let config = &svc.config.conductor;
    every(svc, STAMPS, Chore::Stamps);
    every(svc, config.check_interval, Chore::Timeouts);
    every(svc, config.check_interval, Chore::Allocations);
    every(svc, config.power_sync_interval, Chore::PowerSync);
}

fn every(svc: &Arc<Service>, seconds: u64, chore: Chore) {
    if seconds == 0 {
        return;
    }
    let owner = Arc::clone(svc);
    svc.spawn_chore(async move {
        let mut ticks = tokio::time::interval(Duration::from_secs(seconds));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick comes at once.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            match chore {
                Chore::Stamps => stamps::flush(&owner).await,
                Chore::Timeouts => timeouts::check(&owner).await,
                Chore::Allocations => allocations(&owner).await,
                Chore::PowerSync => power_sync::run(&owner).await,
            }
        }
    });
}

/// Goes on with allocations whose conductor died, or whose search an error of
/// the database ended.
async fn allocations(svc: &Arc<Service>) {
    if let Err(error) = crate::allocations::take_up(svc).await {
        tracing::warn!(err = %chain(&error), "waiting allocations not looked for");
    }
}
