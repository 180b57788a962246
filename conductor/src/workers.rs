//! The workers: how much may be done at the same time. Some are kept back from
//! requests, so that what agents tell is always gone on with.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;

use crate::error::Error;

/// The pool.
#[derive(Debug)]
pub(crate) struct Workers {
    all: Arc<Semaphore>,
    /// What requests and periodic tasks may have of it.
    open: Arc<Semaphore>,
    size: usize,
}

/// The right to be one of the workers.
#[derive(Debug)]
pub(crate) struct Permit {
    _worker: OwnedSemaphorePermit,
    _open: Option<OwnedSemaphorePermit>,
}

impl Workers {
    /// A pool of `size`, of which `kept` are not for requests; at least half
    /// of it, and one, is.
    pub(crate) fn new(size: usize, kept: usize) -> Self {
        let size = size.max(1);
        let open = size - kept.min(size / 2);
        Self {
            all: Arc::new(Semaphore::new(size)),
            open: Arc::new(Semaphore::new(open)),
            size,
        }
    }

    /// A worker for a request, at once or not at all.
    pub(crate) fn for_request(&self) -> Result<Permit, Error> {
        let busy = |_| Error::Busy("No free conductor workers available".to_owned());
        let open = Arc::clone(&self.open).try_acquire_owned().map_err(busy)?;
        let worker = Arc::clone(&self.all).try_acquire_owned().map_err(busy)?;
        Ok(Permit {
            _worker: worker,
            _open: Some(open),
        })
    }

    /// A worker for what has been begun already, as soon as one is free; none
    /// when the conductor ends.
    pub(crate) async fn for_going_on(&self) -> Option<Permit> {
        let worker = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Permit {
            _worker: worker,
            _open: None,
        })
    }

    /// Nobody gets one any more.
    pub(crate) fn close(&self) {
        self.all.close();
        self.open.close();
    }

    /// How many there are, and how many are at work.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.size, self.size - self.all.available_permits())
    }
}

#[cfg(test)]
mod tests {
    use super::Workers;

    #[tokio::test]
    async fn some_are_kept_for_what_was_begun() {
        let workers = Workers::new(4, 1);
        let taken: Vec<_> = std::iter::from_fn(|| workers.for_request().ok()).collect();
        assert_eq!(taken.len(), 3);
        let last = workers.for_going_on().await.unwrap();
        assert_eq!(workers.count(), (4, 4));
        drop(taken);
        assert_eq!(workers.count(), (4, 1));
        drop(last);
        workers.close();
        assert!(workers.for_request().is_err());
        assert!(workers.for_going_on().await.is_none());
        // However small it is, requests are not shut out.
        assert!(Workers::new(0, 8).for_request().is_ok());
    }
}
