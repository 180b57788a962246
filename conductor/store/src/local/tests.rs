//! What is read on the caller's thread is what the pool reads, and what was
//! committed last.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Connection;
use super::sqlite::Failed;
use crate::Error;
use crate::Store;
use crate::codec::Cell;
use crate::testing;

const TTL: Duration = Duration::from_secs(60);

async fn in_file(dir: &tempfile::TempDir) -> Store {
    let url = format!("sqlite:{}", dir.path().join("w.db").display());
    Store::open(&url).await.unwrap()
}

/// A table of odd values, for the connection itself.
async fn odd(dir: &tempfile::TempDir) -> (Store, Connection) {
    let store = in_file(dir).await;
    store
        .write(|db| {
            Box::pin(async move {
                db.run(
                    "CREATE TABLE odd (a TEXT, b BIGINT, c BLOB); \
                     INSERT INTO odd VALUES ('é\u{1f680}''', 9223372036854775807, NULL), \
                     ('', -1, NULL), (NULL, NULL, NULL), ('blob', 4, x'ff'), \
                     (CAST(x'ff' AS TEXT), 5, NULL)",
                )
                .await?;
                Ok::<_, Error>(())
            })
        })
        .await
        .unwrap();
    let connection = Connection::open(&dir.path().join("w.db")).unwrap();
    (store, connection)
}

#[tokio::test]
async fn values_of_every_kind() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut connection) = odd(&dir).await;
    let sql = "SELECT a, b, c FROM odd WHERE b IS $2 AND a IS $1";
    for (a, b) in [
        (Some("é\u{1f680}'"), Some(i64::MAX)),
        (Some(""), Some(-1)),
        (None, None),
    ] {
        let cells = [Cell::Text(a.map(str::to_owned)), Cell::Int(b)];
        let rows = connection.rows(sql, &cells, 2).unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].text(0), Ok(a));
        assert_eq!(rows[0].int(1), Ok(b));
        assert_eq!(rows[0].text(2), Ok(None));
        assert!(rows[0].text(3).is_err() && rows[0].int(3).is_err());
        if a.is_some() {
            assert!(rows[0].int(0).is_err() && rows[0].text(1).is_err());
        }
    }
    let of = |number: i64| [number.into()];
    let sql = "SELECT * FROM odd WHERE b = $1";
    for number in [4, 5] {
        let failed = connection.rows(sql, &of(number), 1).err().unwrap();
        assert!(matches!(failed, Failed::Value(_)), "{failed}");
    }
    assert!(connection.rows(sql, &of(6), 1).unwrap().is_empty());
    let three = "SELECT b FROM odd WHERE b IS NOT NULL ORDER BY b";
    assert_eq!(connection.rows(three, &[], 3).unwrap().len(), 3);
    store.close().await;
}

#[tokio::test]
async fn failures_are_told_and_leave_the_connection_usable() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut connection) = odd(&dir).await;
    for (sql, words) in [
        ("SELECT missing FROM odd", "no such column"),
        ("DELETE FROM odd", "readonly"),
        ("", "an empty statement"),
        ("SELECT ?", "without a number"),
        ("SELECT $1", "without a value"),
    ] {
        let failed = connection.rows(sql, &[], 1).err().unwrap().to_string();
        assert!(failed.contains(words), "{sql:?}: {failed}");
    }
    // More statements than are kept.
    for number in 0..200 {
        let rows = connection
            .rows(&format!("SELECT {number}"), &[], 1)
            .unwrap();
        assert_eq!(rows[0].int(0), Ok(Some(number)));
    }
    let missing = Connection::open(&dir.path().join("missing.db")).err();
    assert!(matches!(missing, Some(Failed::Sqlite { .. })));
    store.close().await;
}

#[tokio::test]
async fn a_node_is_the_same_by_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    let store = in_file(&dir).await;
    let mut node = testing::stored(&store, "näme").await;
    let lease = store.lock_node(node.uuid, "host", TTL).await.unwrap();
    node.extra.insert("k".to_owned(), "é\u{0}".into());
    node.traits = vec!["CUSTOM_A".to_owned()];
    store.save_node(&lease, &mut node).await.unwrap();
    let listed = store
        .list_nodes(&crate::NodeQuery::default())
        .await
        .unwrap();
    assert_eq!(
        store.node_by_uuid(node.uuid).await.unwrap().as_ref(),
        listed.first()
    );
    assert_eq!(store.node("näme").await.unwrap().as_ref(), listed.first());
    assert_eq!(store.node("nobody").await.unwrap(), None);
    store.close().await;
    assert!(store.node("näme").await.is_err());
}

/// Writers raise a number; readers on other threads never see one that is
/// lower than what had been committed before they asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reads_see_every_commit_before_them() {
    let dir = tempfile::tempdir().unwrap();
    let store = in_file(&dir).await;
    let mut node = testing::stored(&store, "a").await;
    let uuid = node.uuid;
    let lease = store.lock_node(uuid, "host", TTL).await.unwrap();
    let (committed, ended) = (
        Arc::new(AtomicI64::new(-1)),
        Arc::new(AtomicBool::new(false)),
    );
    let mut readers = Vec::new();
    for _ in 0..4 {
        let (store, committed, ended) = (store.clone(), committed.clone(), ended.clone());
        readers.push(tokio::spawn(async move {
            while !ended.load(Ordering::SeqCst) {
                let before = committed.load(Ordering::SeqCst);
                let found = store.node_by_uuid(uuid).await.unwrap().unwrap();
                let seen = found.extra.get("n").and_then(|n| n.as_i64()).unwrap_or(-1);
                assert!(seen >= before, "{seen} after {before} was committed");
                tokio::task::yield_now().await;
            }
        }));
    }
    for number in 0..100 {
        node.extra.insert("n".to_owned(), number.into());
        store.save_node(&lease, &mut node).await.unwrap();
        committed.store(number, Ordering::SeqCst);
    }
    ended.store(true, Ordering::SeqCst);
    for reader in readers {
        reader.await.unwrap();
    }
    store.destroy_node(&lease).await.unwrap();
    assert_eq!(store.node_by_uuid(uuid).await.unwrap(), None);
    store.close().await;
}
