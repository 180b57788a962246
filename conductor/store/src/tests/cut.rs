//! PostgreSQL behind a connection that is cut again and again. Tests alone.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::UnixListener;
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Error;
use crate::JournalEntry;
use crate::Lease;
use crate::Phase;
use crate::Registration;
use crate::Sign;
use crate::Store;
use crate::codec;
use crate::testing;

/// Passes on what comes to a socket of its own.
struct Proxy {
    folder: tempfile::TempDir,
    connections: Arc<tokio::sync::Mutex<JoinSet<()>>>,
    listener: tokio::task::JoinHandle<()>,
}

impl Proxy {
    fn start(server: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let connections = Arc::new(tokio::sync::Mutex::new(JoinSet::new()));
        let taken = Arc::clone(&connections);
        let listener = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let server = server.join(".s.PGSQL.5432");
                taken.lock().await.spawn(async move {
                    if let Ok(mut server) = UnixStream::connect(server).await {
                        copy_bidirectional(&mut client, &mut server).await.ok();
                    }
                });
            }
        });
        Self {
            folder,
            connections,
            listener,
        }
    }

    /// Cuts every connection, wherever it is.
    async fn cut(&self) {
        self.connections.lock().await.shutdown().await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

fn entry(lease: &Lease, step_index: u32) -> JournalEntry {
    JournalEntry {
        node: lease.node,
        kind: "deploy".to_owned(),
        step_index,
        step: "deploy.x".to_owned(),
        attempt: 1,
        phase: Phase::Started,
        detail: None,
        at: codec::now(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_survive_cut_connections_and_are_made_once() {
    let Some(url) = testing::postgres() else {
        return;
    };
    let (rest, server) = url.split_once("?host=").unwrap();
    let proxy = Proxy::start(server.into());
    let behind = format!("{rest}?host={}", proxy.folder.path().display());
    let store = Store::open_shared(&behind).await.unwrap();
    let other = Store::open_shared(&url).await.unwrap();
    let own = Registration::new("c1", "", &[]);
    store.register_conductor(&own).await.unwrap();
    let mut node = testing::stored(&store, "a").await;
    let minute = Duration::from_secs(60);
    let lease = store.lock_node(node.uuid, "c1", minute).await.unwrap();

    let work = store.clone();
    let done = tokio::spawn(async move {
        let began = Instant::now();
        let mut count = 0;
        while began.elapsed() < Duration::from_secs(6) {
            let journal = [entry(&lease, count)];
            work.save_node_with(&lease, &mut node, &journal, &[])
                .await
                .unwrap();
            work.renew(&lease).await.unwrap();
            let read = work.node_by_uuid(node.uuid).await.unwrap().unwrap();
            assert_eq!(read.updated_at, node.updated_at);
            let free = testing::stored_as(&work, &format!("n{count}")).await;
            let taken = work.lock_node(free, "c1", minute).await.unwrap();
            assert_eq!(taken.epoch, 1, "taken once");
            work.unlock(taken).await.unwrap();
            count += 1;
        }
        work.unlock(lease).await.unwrap();
        (node.uuid, count)
    });
    for round in 0..12 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        if round % 2 == 0 {
            proxy.cut().await;
            continue;
        }
        // As an administrator, or a server that shuts down, would.
        other
            .write(|db| {
                Box::pin(async move {
                    let sql = "SELECT CAST(pg_terminate_backend(pid) AS TEXT) FROM \
                               pg_stat_activity WHERE datname = current_database() \
                               AND application_name = 'wrought' AND pid <> pg_backend_pid() \
                               AND query NOT LIKE 'LISTEN%'";
                    db.all(sql, []).await?;
                    Ok::<_, Error>(())
                })
            })
            .await
            .unwrap();
    }
    let (node, count) = done.await.unwrap();
    assert!(count > 10, "{count}");
    let journal = other.journal(node).await.unwrap();
    let indices: Vec<u32> = journal.iter().map(|entry| entry.step_index).collect();
    let kept = count.saturating_sub(500);
    assert_eq!(indices, (kept..count).collect::<Vec<_>>(), "each once");
    assert_eq!(
        other.node_by_uuid(node).await.unwrap().unwrap().reservation,
        None
    );
    let sign = store.touch_conductor("c1", own.instance, minute).await;
    assert_eq!(sign.unwrap(), Sign::Noted);
    store.close().await;
    other.close().await;
}

/// A client that is stopped in the middle of a transaction holds nobody up.
#[tokio::test]
async fn who_is_stopped_within_a_transaction_is_put_out() {
    let Some(url) = testing::postgres() else {
        return;
    };
    let (here, there) = (
        Store::open_shared(&url).await.unwrap(),
        Store::open_shared(&url).await.unwrap(),
    );
    let node = testing::stored(&here, "a").await.uuid;
    let stopped = here.clone();
    let stopped = tokio::spawn(async move {
        stopped
            .write(move |db| {
                Box::pin(async move {
                    let sql = "UPDATE nodes SET reservation = 'stopped' WHERE uuid = $1";
                    db.execute(sql, [node.into()]).await?;
                    tokio::time::sleep(Duration::from_secs(15)).await;
                    Ok::<_, Error>(())
                })
            })
            .await
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lease = there.lock_node(node, "c2", Duration::from_secs(60)).await;
    assert_eq!(lease.unwrap().owner, "c2");
    let lost = stopped.await.unwrap().unwrap_err();
    assert!(lost.is_passing(), "{lost}");
    let shown = there.node_by_uuid(node).await.unwrap().unwrap();
    assert_eq!(shown.reservation.as_deref(), Some("c2"));
}
