//! Telling those who wait that something has changed: within the process at
//! once, and on a shared PostgreSQL also in all others, by its notifications.

use std::str::FromStr;
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::PgListener;
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::Store;
use crate::db::Db;

/// Changes that a slow receiver may be behind before it misses some.
const BACKLOG: usize = 1024;
/// The channel's name in PostgreSQL.
const CHANNEL: &str = "wrought";
/// Between two tries to listen.
const AGAIN: Duration = Duration::from_secs(1);

/// Something that others may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// The lock of a node was given back.
    Freed(Uuid),
    /// A conductor came or went.
    Conductors,
    /// Changes may have been missed: look at everything.
    Missed,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Freed(node) => write!(f, "freed {node}"),
            Self::Conductors => f.write_str("conductors"),
            Self::Missed => f.write_str("missed"),
        }
    }
}

impl FromStr for Change {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.split_once(' ') {
            None if text == "conductors" => Ok(Self::Conductors),
            Some(("freed", node)) => Uuid::try_parse(node).map(Self::Freed).map_err(|_| ()),
            _ => Err(()),
        }
    }
}

/// Where changes are told.
#[derive(Debug, Clone)]
pub(crate) struct Teller {
    sender: broadcast::Sender<Change>,
    /// Whether they go by way of the database, to all processes.
    shared: bool,
}

impl Teller {
    pub(crate) fn new(shared: bool) -> Self {
        let (sender, _) = broadcast::channel(BACKLOG);
        Self { sender, shared }
    }

    pub(crate) fn hear(&self) -> broadcast::Receiver<Change> {
        self.sender.subscribe()
    }

    /// Tells the changes with the commit of the transaction.
    pub(crate) async fn with_commit(
        &self,
        db: &mut Db,
        changes: &[Change],
    ) -> Result<(), sqlx::Error> {
        if !self.shared {
            return Ok(());
        }
        for change in changes {
            let sql = "SELECT CAST(pg_notify($1, $2) AS TEXT)";
            let cells = [CHANNEL.to_owned().into(), change.to_string().into()];
            db.all(sql, cells).await?;
        }
        Ok(())
    }

    /// Tells the changes that have been committed.
    pub(crate) fn after_commit(&self, changes: &[Change]) {
        if !self.shared {
            changes.iter().for_each(|change| self.tell(*change));
        }
    }

    fn tell(&self, change: Change) {
        // An error says that nobody listens.
        let _ = self.sender.send(change);
    }

    /// Passes on what PostgreSQL tells.
    pub(crate) fn listen(&self, pool: PgPool) -> JoinHandle<()> {
        let teller = self.clone();
        tokio::spawn(async move {
            loop {
                if let Err(error) = teller.pass_on(&pool).await {
                    if matches!(error, sqlx::Error::PoolClosed) {
                        return;
                    }
                    tracing::debug!(%error, "not listening to the database");
                }
                tokio::time::sleep(AGAIN).await;
            }
        })
    }

    async fn pass_on(&self, pool: &PgPool) -> Result<(), sqlx::Error> {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen(CHANNEL).await?;
        self.tell(Change::Missed);
        while let Some(told) = listener.try_recv().await? {
            match told.payload().parse() {
                Ok(change) => self.tell(change),
                Err(()) => tracing::debug!(payload = told.payload(), "unknown notification"),
            }
        }
        // The connection was lost.
        Ok(())
    }
}

impl Store {
    /// What changes from now on, as far as others wait for it. One who is too
    /// slow learns that as an error of the channel, to be taken for
    /// [`Change::Missed`].
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.inner.teller.hear()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::broadcast;
    use uuid::Uuid;

    use super::Change;
    use crate::Registration;
    use crate::testing;

    async fn hears(receiver: &mut broadcast::Receiver<Change>, wanted: Change) {
        let heard = async { while receiver.recv().await.unwrap() != wanted {} };
        tokio::time::timeout(Duration::from_secs(20), heard)
            .await
            .unwrap();
    }

    #[test]
    fn payloads_are_read_back() {
        for change in [Change::Freed(Uuid::new_v4()), Change::Conductors] {
            assert_eq!(change.to_string().parse(), Ok(change));
        }
        for odd in ["", "freed", "freed x", "missed", "x y"] {
            assert_eq!(odd.parse::<Change>(), Err(()), "{odd}");
        }
    }

    #[tokio::test]
    async fn those_who_wait_for_a_lock_are_told_in_every_process() {
        let (here, there) = testing::pair().await;
        let node = testing::stored(&here, "a").await.uuid;
        let (mut near, mut far) = (here.changes(), there.changes());
        testing::listening(&there, &mut far).await;
        let minute = Duration::from_secs(60);
        let lease = here.lock_node(node, "c1", minute).await.unwrap();
        here.unlock(lease).await.unwrap();
        hears(&mut near, Change::Freed(node)).await;
        hears(&mut far, Change::Freed(node)).await;
        there
            .register_conductor(&Registration::new("c2", "", &[]))
            .await
            .unwrap();
        hears(&mut near, Change::Conductors).await;
        hears(&mut far, Change::Conductors).await;
    }
}
