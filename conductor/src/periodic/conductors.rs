//! Forgets conductors that were not heard of for long.

use std::sync::Arc;

use jiff::SignedDuration;
use jiff::Timestamp;

use crate::error::Error;
use crate::service::Service;
use crate::task::store;

/// Least seconds of silence: a conductor that only has trouble is not
/// forgotten.
const LEAST: u64 = 180;

/// One round.
pub(super) async fn forget(svc: &Arc<Service>) -> Result<u64, Error> {
    let config = &svc.config.conductor;
    let silence = config.conductor_cleanup_timeout.max(LEAST);
    let before = ago(silence);
    let batch = config.conductor_cleanup_batch_size.max(1);
    loop {
        let gone = svc.store.forget_conductors(&svc.config.host, before, batch);
        let gone = gone.await.map_err(store("forget conductors"))?;
        for host in &gone {
            tracing::info!(host, "conductor not heard of for long, forgotten");
        }
        if gone.len() < batch as usize {
            return Ok(0);
        }
    }
}

/// The moment so many seconds ago.
pub(super) fn ago(seconds: u64) -> Timestamp {
    let seconds = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
    Timestamp::now()
        .saturating_sub(seconds)
        .unwrap_or(Timestamp::MIN)
}
