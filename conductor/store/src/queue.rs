//! The queue of nodes that wait for their turn: they are in the transitional
//! state of their operation already, but nobody works on them yet.

use std::collections::HashMap;

use jiff::Timestamp;
use uuid::Uuid;
use wrought_wire::state::ProvisionState;

use crate::Error;
use crate::Result;
use crate::Store;
use crate::codec::Cell;
use crate::codec::Columns;
use crate::db::DbRow;
use crate::page;
use crate::select::Select;

impl Store {
    /// Puts a node at the end of a lane. One that is queued already keeps its
    /// place.
    pub async fn enqueue(&self, node: Uuid, lane: &'static str, at: Timestamp) -> Result<()> {
        self.write(move |db| {
            Box::pin(async move {
                let sql = "INSERT INTO provision_queue (node_uuid, lane, at) VALUES ($1, $2, $3) \
                           ON CONFLICT (node_uuid) DO NOTHING";
                db.execute(sql, [node.into(), Cell::text(lane), at.into()])
                    .await?;
                Ok::<_, Error>(())
            })
        })
        .await
    }

    /// Takes a node out of the queue; false when it was in none.
    pub async fn dequeue(&self, node: Uuid) -> Result<bool> {
        self.write(move |db| {
            Box::pin(async move {
                let sql = "DELETE FROM provision_queue WHERE node_uuid = $1";
                Ok::<_, Error>(db.execute(sql, [node.into()]).await? > 0)
            })
        })
        .await
    }

    /// The first nodes of a lane, at most `limit`.
    pub async fn queued(&self, lane: &'static str, limit: u32) -> Result<Vec<Uuid>> {
        self.read(move |db| {
            Box::pin(async move {
                let sql = "SELECT node_uuid FROM provision_queue WHERE lane = $1 \
                           ORDER BY at, node_uuid LIMIT $2";
                let rows = db.all(sql, [Cell::text(lane), i64::from(limit).into()]);
                let rows = rows.await?;
                rows.iter()
                    .map(|row| Columns::new(row, "provision_queue", &["node_uuid"]).key())
                    .collect()
            })
        })
        .await
    }

    /// How many nodes wait in a lane.
    pub async fn queue_length(&self, lane: &'static str) -> Result<u64> {
        self.read(move |db| {
            Box::pin(async move {
                let sql = "SELECT COUNT(*) FROM provision_queue WHERE lane = $1";
                let found = db.one(sql, [Cell::text(lane)]).await?;
                Ok(found.int(0)?.unwrap_or_default().unsigned_abs())
            })
        })
        .await
    }

    /// The place of a node in its lane, from 1; none when it is not queued.
    pub async fn queue_position(&self, node: Uuid) -> Result<Option<u64>> {
        self.read(move |db| {
            Box::pin(async move {
                let sql = "SELECT (SELECT COUNT(*) FROM provision_queue o WHERE o.lane = q.lane \
                           AND (o.at < q.at OR (o.at = q.at AND o.node_uuid <= q.node_uuid))) \
                           FROM provision_queue q WHERE q.node_uuid = $1";
                let found = db.optional(sql, [node.into()]).await?;
                let Some(found) = found else { return Ok(None) };
                Ok(found.int(0)?.map(i64::unsigned_abs))
            })
        })
        .await
    }

    /// The place of every queued node in its lane, from 1.
    pub async fn queue_positions(&self) -> Result<HashMap<Uuid, u64>> {
        self.read(move |db| {
            Box::pin(async move {
                let sql = "SELECT node_uuid, ROW_NUMBER() OVER \
                           (PARTITION BY lane ORDER BY at, node_uuid) FROM provision_queue";
                let rows = db.all(sql, []).await?;
                let place = |row: &DbRow| {
                    let mut column = Columns::new(row, "provision_queue", &["node_uuid", "place"]);
                    Ok((column.key()?, column.int()?.unsigned_abs()))
                };
                rows.iter().map(place).collect()
            })
        })
        .await
    }

    /// The nodes in one of these states that are not queued: those that are
    /// really at work.
    pub async fn nodes_at_work(&self, states: &[ProvisionState]) -> Result<Vec<Uuid>> {
        let states: Vec<String> = states
            .iter()
            .map(|state| state.as_str().to_owned())
            .collect();
        self.read(move |db| {
            Box::pin(async move {
                let mut select = Select::new("SELECT uuid FROM nodes WHERE 1 = 1");
                page::within(&mut select, "provision_state", states);
                select.push(
                    " AND NOT EXISTS (SELECT 1 FROM provision_queue \
                     WHERE provision_queue.node_uuid = nodes.uuid)",
                );
                let rows = select.all(db).await?;
                rows.iter()
                    .map(|row| Columns::new(row, "nodes", &["uuid"]).key())
                    .collect()
            })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use uuid::Uuid;
    use wrought_wire::state::ProvisionState as S;

    use crate::testing;

    #[tokio::test]
    async fn first_come_first_served() {
        let store = testing::store().await;
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut nodes = Vec::new();
        for (name, second) in [("a", 30), ("b", 10), ("c", 20)] {
            let mut node = testing::stored(&store, name).await;
            let lease = store
                .lock_node(node.uuid, "c", Duration::from_secs(60))
                .await
                .unwrap();
            node.provision_state = S::Deploying;
            store.save_node(&lease, &mut node).await.unwrap();
            store
                .enqueue(node.uuid, "deploy", at(second))
                .await
                .unwrap();
            nodes.push(node.uuid);
        }
        let [a, b, c] = nodes[..] else { panic!() };
        // It keeps its place.
        store.enqueue(b, "deploy", at(99)).await.unwrap();
        assert_eq!(store.queued("deploy", 10).await.unwrap(), [b, c, a]);
        assert_eq!(store.queued("deploy", 1).await.unwrap(), [b]);
        assert!(store.queued("clean", 10).await.unwrap().is_empty());
        assert_eq!(store.queue_length("deploy").await.unwrap(), 3);
        assert_eq!(store.queue_position(a).await.unwrap(), Some(3));
        assert!(
            store
                .nodes_at_work(&[S::Deploying])
                .await
                .unwrap()
                .is_empty()
        );
        assert!(store.dequeue(b).await.unwrap());
        assert!(!store.dequeue(b).await.unwrap());
        assert_eq!(store.queue_position(a).await.unwrap(), Some(2));
        assert_eq!(store.queue_position(b).await.unwrap(), None);
        let places = store.queue_positions().await.unwrap();
        assert_eq!((places.len(), places[&c], places[&a]), (2, 1, 2));
        let at_work = store.nodes_at_work(&[S::Deploying, S::DeployWait]).await;
        assert_eq!(at_work.unwrap(), [b]);
        // What is no node is queued nowhere.
        assert!(
            store
                .enqueue(Uuid::new_v4(), "deploy", at(1))
                .await
                .is_err()
        );
    }
}
