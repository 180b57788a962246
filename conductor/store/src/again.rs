//! Reading, and changing again what the database failed for a passing reason:
//! a server that restarts takes seconds, and a lease outlives that.

use std::time::Duration;

use tokio::time::Instant;

use crate::Change;
use crate::Error;
use crate::LockError;
use crate::Result;
use crate::Store;
use crate::db::Db;
use crate::open::Readers;
use crate::writer::Work;

/// For how long a change that may be made twice is tried again.
const CHANGES: Duration = Duration::from_secs(20);
/// For how long a reading is tried again: people wait for it.
const READINGS: Duration = Duration::from_secs(8);
/// How long one reading may take.
const ANSWER: Duration = Duration::from_secs(15);
/// First pause between two tries; it doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// An error that may be one of the database.
pub(crate) trait Passing {
    /// Whether trying again may help.
    fn passes(&self) -> bool;
}

impl Passing for Error {
    fn passes(&self) -> bool {
        self.is_passing()
    }
}

impl Passing for LockError {
    fn passes(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_passing())
    }
}

/// The pauses between tries, until their time is up.
struct Tries {
    until: Instant,
    pause: Duration,
}

impl Tries {
    fn within(time: Duration) -> Self {
        Self {
            until: Instant::now() + time,
            pause: PAUSE,
        }
    }

    /// Waits before another try; false when there is to be none.
    async fn again(&mut self) -> bool {
        if Instant::now() + self.pause > self.until {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        true
    }
}

impl Store {
    /// Runs `work`, which may be done twice, in the writer's queue, again when
    /// the database fails it for a passing reason. Its outcome's changes are
    /// told.
    pub(crate) async fn write_again<T, E, F, C>(
        &self,
        changes: C,
        work: F,
    ) -> std::result::Result<T, E>
    where
        F: for<'c> FnOnce(&'c mut Db) -> Work<'c, T, E> + Clone + Send + 'static,
        C: FnOnce(&T) -> Vec<Change> + Clone + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Passing + std::fmt::Display + Send + 'static,
    {
        let mut tries = Tries::within(CHANGES);
        loop {
            let writer = &self.inner.writer;
            match writer.run_telling(changes.clone(), work.clone()).await {
                Err(error) if error.passes() && tries.again().await => {
                    tracing::debug!(%error, "changed again");
                }
                outcome => return outcome,
            }
        }
    }

    /// Runs `work` on a reading connection.
    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T>
    where
        F: for<'c> FnOnce(&'c mut Db) -> Work<'c, T, Error> + Clone + Send + 'static,
        T: Send + 'static,
    {
        let pool = match &self.inner.readers {
            None => return self.inner.writer.run(work).await,
            Some(readers @ Readers::Sqlite(_)) => {
                let mut connection = readers.acquire().await?;
                return work(&mut connection).await;
            }
            Some(readers @ Readers::Postgres(_)) => readers,
        };
        let mut tries = Tries::within(READINGS);
        loop {
            match read_once(pool, work.clone()).await {
                Err(error) if error.is_passing() && tries.again().await => {
                    tracing::debug!(%error, "read again");
                }
                outcome => return outcome,
            }
        }
    }
}

async fn read_once<T, F>(pool: &Readers, work: F) -> Result<T>
where
    F: for<'c> FnOnce(&'c mut Db) -> Work<'c, T, Error> + Send + 'static,
    T: Send + 'static,
{
    let mut connection = pool.acquire().await?;
    match tokio::time::timeout(ANSWER, work(&mut connection)).await {
        Ok(outcome) => outcome,
        Err(_) => {
            // It may yet answer: not to the next reader.
            connection.give_up();
            Err(Error::Cut)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering;

    use crate::Error;
    use crate::testing;

    #[tokio::test]
    async fn what_fails_for_a_passing_reason_is_tried_again() {
        let store = testing::store().await;
        let times = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&times);
        let done = store
            .write_again(crate::nothing, move |_| {
                Box::pin(async move {
                    match count.fetch_add(1, Ordering::SeqCst) {
                        2 => Ok(7),
                        _ => Err(Error::Cut),
                    }
                })
            })
            .await;
        assert_eq!((done.unwrap(), times.load(Ordering::SeqCst)), (7, 3));
        let failed = store
            .write_again(crate::nothing, |_| {
                Box::pin(async { Err::<(), _>(Error::no_node("x")) })
            })
            .await;
        assert!(matches!(failed, Err(Error::NotFound { .. })));
    }

    #[tokio::test]
    async fn reading_takes_little_room_in_the_futures_around_it() {
        let store = testing::store().await;
        let reading = store.node_by_uuid(uuid::Uuid::nil());
        assert!(std::mem::size_of_val(&reading) < 2500);
    }
}
