//! The writer: one connection, one queue, changes committed in groups.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::oneshot;

use crate::Change;
use crate::Error;
use crate::change::Teller;
use crate::db::Db;
use crate::db::Kind;
use crate::open::Place;

/// What one job does with the connection.
pub(crate) type Work<'c, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'c>>;

/// Hands the outcome to the caller, given the fate of the commit.
type Deliver = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// A job that has run: whether its changes are to be kept, what others are to
/// be told then, and its answer.
struct Ran {
    keep: bool,
    changes: Vec<Change>,
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
/// How long PostgreSQL may take for a group before its connection is given up.
const ANSWER: Duration = Duration::from_secs(20);

/// The way into the queue.
pub(crate) struct Writer {
    orders: mpsc::Sender<Order>,
}

impl Writer {
    /// Starts the task that owns the connection; one that is lost is made
    /// again at `place`.
    pub(crate) fn start(connection: Db, place: Place, teller: Teller) -> Self {
        let (orders, queue) = mpsc::channel(QUEUE);
        tokio::spawn(serve(connection, place, teller, queue));
        Self { orders }
    }

    /// Queues `work` and waits until it is committed or has failed.
    pub(crate) async fn run<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: for<'c> FnOnce(&'c mut Db) -> Work<'c, T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.run_telling(crate::nothing, work).await
    }

    /// The same; what its outcome `changes` is told to those who wait.
    pub(crate) async fn run_telling<T, E, F, C>(&self, changes: C, work: F) -> Result<T, E>
    where
        F: for<'c> FnOnce(&'c mut Db) -> Work<'c, T, E> + Send + 'static,
        C: FnOnce(&T) -> Vec<Change> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (answer, outcome) = oneshot::channel::<Result<T, E>>();
        let job: Job = Box::new(move |connection| {
            Box::pin(async move {
                let result = work(connection).await;
                let keep = result.is_ok();
                let changes = result.as_ref().map(changes).unwrap_or_default();
                let deliver: Deliver = Box::new(move |commit| {
                    let result = match commit {
                        Ok(()) => result,
                        Err(failed) => result.and(Err(failed.into())),
                    };
                    // A caller that has gone away needs no answer.
                    answer.send(result).ok();
                });
                Ran {
                    keep,
                    changes,
                    deliver,
                }
            })
        });
        self.orders
            .send(Order::Run(job))
            .await
            .map_err(|_| Error::Closed)?;
        // Dropped with its group: the connection was lost.
        outcome.await.map_err(|_| Error::Cut)?
    }

    /// Ends the task after what is queued.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.orders.send(Order::Close(done)).await.is_ok() {
            closed.await.ok();
        }
    }
}

async fn serve(connection: Db, place: Place, teller: Teller, mut queue: mpsc::Receiver<Order>) {
    let mut connection = Some(connection);
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
        if group.is_empty() {
            continue;
        }
        if connection.is_none() {
            connection = connect_again(&place).await;
        }
        // Without a connection the group is dropped, which its callers learn.
        if let Some(open) = &mut connection
            && !run_group(open, group, &teller).await
        {
            connection = connect_again(&place).await;
        }
    }
    queue.close();
    if let Some(connection) = connection
        && let Err(error) = connection.close().await
    {
        tracing::warn!(%error, "the database connection did not close cleanly");
    }
    if let Some(Some(done)) = closing {
        done.send(()).ok();
    }
}

/// Runs the jobs in one transaction. A job that fails undoes its own changes
/// alone; when the transaction itself fails, every job of the group learns it.
/// Whether the connection is still good.
async fn run_group(connection: &mut Db, group: Vec<Job>, teller: &Teller) -> bool {
    let mut kept: Vec<Deliver> = Vec::with_capacity(group.len());
    let mut changes = Vec::new();
    let patient = connection.kind() == Kind::Sqlite;
    let jobs = run_jobs(connection, group, teller, &mut kept, &mut changes);
    let (outcome, answers) = match patient {
        true => (jobs.await, true),
        // A server that is silent is gone.
        false => match tokio::time::timeout(ANSWER, jobs).await {
            Ok(outcome) => (outcome, true),
            Err(_) => (Err(silent()), false),
        },
    };
    match outcome {
        Ok(()) => {
            teller.after_commit(&changes);
            kept.into_iter().for_each(|deliver| deliver(Ok(())));
            true
        }
        Err(error) => {
            let good = answers && is_good(connection).await;
            let error = Arc::new(error);
            kept.into_iter()
                .for_each(|deliver| deliver(Err(Error::Commit(error.clone()))));
            good
        }
    }
}

fn silent() -> sqlx::Error {
    let text = format!("no answer within {} s", ANSWER.as_secs());
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, text))
}

async fn is_good(connection: &mut Db) -> bool {
    let ask = async {
        // Fails when the database has rolled back by itself.
        connection.run("ROLLBACK").await.ok();
        connection.run("SELECT 1").await.is_ok()
    };
    tokio::time::timeout(RECONNECT, ask).await.unwrap_or(false)
}

/// Replaces a lost connection. Where that fails, the next group of jobs makes
/// another attempt.
async fn connect_again(place: &Place) -> Option<Db> {
    match tokio::time::timeout(RECONNECT, place.connect()).await {
        Ok(Ok(fresh)) => {
            tracing::warn!("the connection to the database was lost and made again");
            return Some(fresh);
        }
        Ok(Err(error)) => tracing::error!(%error, "the database cannot be reached"),
        Err(_) => tracing::error!("the database does not answer"),
    }
    None
}

async fn run_jobs(
    connection: &mut Db,
    group: Vec<Job>,
    teller: &Teller,
    kept: &mut Vec<Deliver>,
    changes: &mut Vec<Change>,
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
        let ran = job(&mut *connection).await;
        if ran.keep {
            kept.push(ran.deliver);
            changes.extend(ran.changes);
        } else {
            // Nothing of it is stored, whatever becomes of the commit.
            (ran.deliver)(Ok(()));
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
        teller.with_commit(connection, changes).await?;
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
