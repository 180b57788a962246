//! The writer: one connection, one queue, changes committed in groups.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::oneshot;

use crate::Error;
use crate::db::Db;
use crate::db::Kind;
use crate::open::Place;

/// What one job does with the connection.
pub(crate) type Work<'c, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'c>>;

/// Hands the outcome to the caller, given the fate of the commit.
type Deliver = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// A job that has run: whether its changes are to be kept, and its answer.
struct Ran {
    keep: bool,
    deliver: Deliver,
}

type Running<'c> = Pin<Box<dyn Future<Output = Ran> + Send + 'c>>;
type Job = Box<dyn for<'c> FnOnce(&'c mut Db) -> Running<'c> + Send>;

enum Order {
    Run(Job),
    Close(oneshot::Sender<()>),
}

/// Jobs that may wait before callers are slowed down.
const QUEUE: usize = 4096;
/// Jobs that one commit takes at most.
const GROUP: usize = 256;
/// How long a lost connection may take to be made again while jobs wait.
const RECONNECT: Duration = Duration::from_secs(5);

/// The way into the queue.
pub(crate) struct Writer {
    orders: mpsc::Sender<Order>,
}

impl Writer {
    /// Starts the task that owns the connection; one that is lost is made
    /// again at `place`.
    pub(crate) fn start(connection: Db, place: Place) -> Self {
        let (orders, queue) = mpsc::channel(QUEUE);
        tokio::spawn(serve(connection, place, queue));
        Self { orders }
    }

    /// Queues `work` and waits until it is committed or has failed.
    pub(crate) async fn run<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: for<'c> FnOnce(&'c mut Db) -> Work<'c, T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (answer, outcome) = oneshot::channel::<Result<T, E>>();
        let job: Job = Box::new(move |connection| {
            Box::pin(async move {
                let result = work(connection).await;
                let keep = result.is_ok();
                let deliver: Deliver = Box::new(move |commit| {
                    let result = match commit {
                        Ok(()) => result,
                        Err(failed) => result.and(Err(failed.into())),
                    };
                    // A caller that has gone away needs no answer.
                    answer.send(result).ok();
                });
                Ran { keep, deliver }
            })
        });
        self.orders
            .send(Order::Run(job))
            .await
            .map_err(|_| Error::Closed)?;
        outcome.await.map_err(|_| Error::Closed)?
    }

    /// Ends the task after what is queued.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.orders.send(Order::Close(done)).await.is_ok() {
            closed.await.ok();
        }
    }
}

async fn serve(mut connection: Db, place: Place, mut queue: mpsc::Receiver<Order>) {
    let mut closing = None;
    while closing.is_none() {
        let mut group = Vec::new();
        let mut next = queue.recv().await;
        loop {
            match next {
                Some(Order::Run(job)) => group.push(job),
                Some(Order::Close(done)) => {
                    closing = Some(Some(done));
                    break;
                }
                None => {
                    closing = Some(None);
                    break;
                }
            }
            if group.len() == GROUP {
                break;
            }
            match queue.try_recv() {
                Ok(order) => next = Some(order),
                Err(_) => break,
            }
        }
        if !group.is_empty() && !run_group(&mut connection, group).await {
            connect_again(&mut connection, &place).await;
        }
    }
    queue.close();
    if let Err(error) = connection.close().await {
        tracing::warn!(%error, "the database connection did not close cleanly");
    }
    if let Some(Some(done)) = closing {
        done.send(()).ok();
    }
}

/// Runs the jobs in one transaction. A job that fails undoes its own changes
/// alone; when the transaction itself fails, every job of the group learns it.
/// Whether the connection is still good.
async fn run_group(connection: &mut Db, group: Vec<Job>) -> bool {
    let mut kept: Vec<Deliver> = Vec::with_capacity(group.len());
    let outcome = run_jobs(connection, group, &mut kept).await;
    match outcome {
        Ok(()) => {
            kept.into_iter().for_each(|deliver| deliver(Ok(())));
            true
        }
        Err(error) => {
            // Fails when the database has rolled back by itself.
            connection.run("ROLLBACK").await.ok();
            let error = Arc::new(error);
            kept.into_iter()
                .for_each(|deliver| deliver(Err(Error::Commit(error.clone()))));
            connection.run("SELECT 1").await.is_ok()
        }
    }
}

/// Replaces a lost connection. Where that fails, the next group of jobs does
/// so too, and another attempt follows.
async fn connect_again(connection: &mut Db, place: &Place) {
    match tokio::time::timeout(RECONNECT, place.connect()).await {
        Ok(Ok(fresh)) => {
            tracing::warn!("the connection to the database was lost and made again");
            *connection = fresh;
        }
        Ok(Err(error)) => tracing::error!(%error, "the database cannot be reached"),
        Err(_) => tracing::error!("the database does not answer"),
    }
}

async fn run_jobs(
    connection: &mut Db,
    group: Vec<Job>,
    kept: &mut Vec<Deliver>,
) -> Result<(), sqlx::Error> {
    let (begin, alone) = match connection.kind() {
        Kind::Sqlite => ("BEGIN IMMEDIATE", group.len() == 1),
        // A failed statement ends all that is not within a savepoint.
        Kind::Postgres => ("BEGIN", false),
    };
    connection.run(begin).await?;
    for job in group {
        if !alone {
            connection.run("SAVEPOINT job").await?;
        }
        let Ran { keep, deliver } = job(&mut *connection).await;
        if keep {
            kept.push(deliver);
        } else {
            // Nothing of it is stored, whatever becomes of the commit.
            deliver(Ok(()));
            if !alone {
                connection.run("ROLLBACK TO SAVEPOINT job").await?;
            }
        }
        if !alone {
            connection.run("RELEASE SAVEPOINT job").await?;
        }
    }
    let end = if alone && kept.is_empty() {
        "ROLLBACK"
    } else {
        "COMMIT"
    };
    connection.run(end).await
}

#[cfg(test)]
mod tests {
    use crate::Error;
    use crate::Store;
    use crate::testing;

    async fn count(store: &Store) -> i64 {
        store
            .read(|db| {
                Box::pin(async move {
                    let found = db.one("SELECT COUNT(*) FROM t", []).await?;
                    Ok(found.int(0)?.unwrap_or_default())
                })
            })
            .await
            .unwrap()
    }

    async fn insert(store: &Store, fail: bool) -> Result<(), Error> {
        store
            .write(move |db| {
                Box::pin(async move {
                    db.run("INSERT INTO t VALUES (1)").await?;
                    if fail {
                        Err(Error::no_node("x"))
                    } else {
                        Ok(())
                    }
                })
            })
            .await
    }

    #[tokio::test]
    async fn failing_jobs_of_a_group_leave_the_others_alone() {
        let store = testing::store().await;
        store
            .write(|db| {
                Box::pin(async move {
                    db.run("CREATE TABLE t (x BIGINT)").await?;
                    Ok::<_, Error>(())
                })
            })
            .await
            .unwrap();
        let mut tasks = Vec::new();
        for number in 0..300 {
            let store = store.clone();
            tasks.push(tokio::spawn(async move {
                insert(&store, number % 3 == 0).await.is_ok()
            }));
        }
        let mut good = 0;
        for task in tasks {
            good += i64::from(task.await.unwrap());
        }
        assert_eq!((good, count(&store).await), (200, 200));
        insert(&store, true).await.unwrap_err();
        assert_eq!(count(&store).await, 200);
        // A caller that goes away does not leave half a change behind.
        let gone = insert(&store, false);
        tokio::time::timeout(std::time::Duration::ZERO, gone)
            .await
            .ok();
        insert(&store, false).await.unwrap();
        assert!(count(&store).await >= 201);
        store.close().await;
        assert!(matches!(insert(&store, false).await, Err(Error::Closed)));
    }
}
