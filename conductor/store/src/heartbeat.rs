//! When agents last called in, and when machines were last asked for their
//! power: one short row for each node, written many at once.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;
use wrought_wire::state::ProvisionState;

use crate::Result;
use crate::Store;
use crate::codec::Columns;
use crate::db::Db;
use crate::packed;
use crate::packed::Packed;
use crate::page;
use crate::select::Select;

/// Stamps of one statement: its arguments must stay below what databases take.
const CHUNK: usize = 400;

/// A node in a state in which it waits, as a look for time-outs needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The node.
    pub uuid: Uuid,
    /// Its hardware type.
    pub driver: String,
    /// Its group of conductors; lower case.
    pub conductor_group: String,
    /// Its state.
    pub provision_state: ProvisionState,
    /// Whether it is in maintenance.
    pub maintenance: bool,
    /// Whether somebody holds its lock now.
    pub reserved: bool,
    /// The last sign of life: the change to the state, or a later heartbeat.
    pub last_sign: Option<Timestamp>,
}

impl Waiting {
    /// How long it has been silent by `now`; none when that is not known.
    pub fn silence(&self, now: Timestamp) -> Option<Duration> {
        Duration::try_from(now.duration_since(self.last_sign?)).ok()
    }
}

/// Tables of stamps, all of one form.
const AGENT: &str = "agent_heartbeats";
const POWER: &str = "power_syncs";

/// Writes stamps; those of nodes that do not exist are passed over.
async fn stamp(db: &mut Db, table: &'static str, stamps: &[(Uuid, Timestamp)]) -> Result<()> {
    for chunk in stamps.chunks(CHUNK) {
        let mut stamp = Select::new("WITH called (node, moment) AS (");
        stamp.push("VALUES ");
        for (number, (node, at)) in chunk.iter().enumerate() {
            stamp.push(if number == 0 { "(" } else { ", (" });
            stamp.push_list([(*node).into(), (*at).into()]).push(")");
        }
        stamp.push(format_args!(
            ") INSERT INTO {table} (node_uuid, at) SELECT node, moment FROM called \
             WHERE EXISTS (SELECT 1 FROM nodes WHERE nodes.uuid = called.node) \
             ON CONFLICT (node_uuid) DO UPDATE SET at = CASE \
             WHEN excluded.at > {table}.at THEN excluded.at ELSE {table}.at END"
        ));
        stamp.execute(db).await?;
    }
    Ok(())
}

const WAITING: &[&str] = &[
    "uuid",
    "driver",
    "conductor_group",
    "provision_state",
    "maintenance",
    "lock_expires_at",
    "provision_updated_at",
    "at",
];

impl Store {
    /// Notes when the agents of these nodes last called in, in one
    /// transaction; what is later there already stays. A node that does not
    /// exist is no error.
    pub async fn stamp_heartbeats(&self, mut stamps: Vec<(Uuid, Timestamp)>) -> Result<()> {
        if stamps.is_empty() {
            return Ok(());
        }
        // In one order, so that two processes never wait for each other.
        stamps.sort_unstable();
        self.write_again(crate::nothing, move |db| {
            Box::pin(async move { stamp(db, AGENT, &stamps).await })
        })
        .await
    }

    /// Notes when the power of these machines was compared with the records,
    /// in one transaction. A node that does not exist is no error.
    pub async fn stamp_power_syncs(&self, mut stamps: Vec<(Uuid, Timestamp)>) -> Result<()> {
        if stamps.is_empty() {
            return Ok(());
        }
        stamps.sort_unstable();
        self.write_again(crate::nothing, move |db| {
            Box::pin(async move { stamp(db, POWER, &stamps).await })
        })
        .await
    }

    /// When the power of the machine was last compared with its record.
    pub async fn last_power_sync(&self, node: Uuid) -> Result<Option<Timestamp>> {
        self.read(move |db| {
            Box::pin(async move {
                let sql = "SELECT at FROM power_syncs WHERE node_uuid = $1";
                let found = db.optional(sql, [node.into()]).await?;
                found
                    .map(|found| Columns::new(&found, POWER, &["at"]).time())
                    .transpose()
            })
        })
        .await
    }

    /// When the agent of the node last called in.
    pub async fn last_heartbeat(&self, node: Uuid) -> Result<Option<Timestamp>> {
        self.read_row(move |db| {
            Box::pin(async move {
                let sql = "SELECT at FROM agent_heartbeats WHERE node_uuid = $1";
                let found = db.optional(sql, [node.into()]).await?;
                found
                    .map(|found| Columns::new(&found, "agent_heartbeats", &["at"]).time())
                    .transpose()
            })
        })
        .await
    }

    /// All nodes in one of these states.
    pub async fn waiting_nodes(&self, states: &[ProvisionState]) -> Result<Vec<Waiting>> {
        let clock = self.clock();
        let states: Vec<String> = states
            .iter()
            .map(|state| state.as_str().to_owned())
            .collect();
        self.read(move |db| {
            Box::pin(async move {
                let now = clock.now();
                let mut select = Select::new(format!(
                    "SELECT string_agg(line, '') FROM (SELECT {} AS line FROM nodes \
                     LEFT JOIN agent_heartbeats ON node_uuid = uuid WHERE 1 = 1",
                    packed::fields(WAITING)
                ));
                page::within(&mut select, "provision_state", states);
                select.push(" ORDER BY id) AS waiting");
                let all = select.one(db).await?;
                let rows = all.text(0)?.unwrap_or_default();
                let mut column = Packed::new(rows, "nodes", WAITING);
                let mut waiting = Vec::new();
                while !column.is_empty() {
                    waiting.push(Waiting {
                        uuid: column.parse()?,
                        driver: column.text()?.to_owned(),
                        conductor_group: column.text()?.to_owned(),
                        provision_state: column.parse()?,
                        maintenance: column.text()? != "0",
                        reserved: column.maybe_time()?.is_some_and(|expiry| expiry > now),
                        last_sign: column.maybe_time()?.max(column.maybe_time()?),
                    });
                }
                Ok(waiting)
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

    const TTL: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn stamps_stay_beside_the_node() {
        let store = testing::store().await;
        let mut node = testing::stored(&store, "a").await;
        let lease = store.lock_node(node.uuid, "c", TTL).await.unwrap();
        assert_eq!(store.last_heartbeat(node.uuid).await.unwrap(), None);
        let at = |second| Timestamp::from_second(second).unwrap();
        for second in [1_800_000_000, 1_800_000_010] {
            let stamps = vec![(Uuid::new_v4(), at(second)), (node.uuid, at(second))];
            store.stamp_heartbeats(stamps).await.unwrap();
            store.save_node(&lease, &mut node).await.unwrap();
            let last = store.last_heartbeat(node.uuid).await.unwrap();
            assert_eq!(last, Some(at(second)));
        }
        store.stamp_heartbeats(Vec::new()).await.unwrap();
        assert_eq!(store.last_power_sync(node.uuid).await.unwrap(), None);
        let stamps = vec![(Uuid::new_v4(), at(5)), (node.uuid, at(7))];
        store.stamp_power_syncs(stamps).await.unwrap();
        let last = store.last_power_sync(node.uuid).await.unwrap();
        assert_eq!(last, Some(at(7)));
        store.destroy_node(&lease).await.unwrap();
        assert_eq!(store.last_heartbeat(node.uuid).await.unwrap(), None);
    }

    #[tokio::test]
    async fn many_stamps_are_one_call() {
        let store = testing::store().await;
        let mut stamps = Vec::new();
        for number in 0..950 {
            let node = testing::stored(&store, &format!("n{number}")).await;
            stamps.push((node.uuid, Timestamp::from_second(number).unwrap()));
        }
        store.stamp_heartbeats(stamps.clone()).await.unwrap();
        for (node, at) in stamps {
            assert_eq!(store.last_heartbeat(node).await.unwrap(), Some(at));
        }
    }

    #[tokio::test]
    async fn waiting_nodes_with_their_last_sign() {
        let store = testing::store().await;
        let at = |second| Timestamp::from_second(second).unwrap();
        for (name, state) in [
            ("a", S::CleanWait),
            ("b", S::DeployWait),
            ("c", S::Available),
        ] {
            let mut node = testing::stored(&store, name).await;
            let lease = store.lock_node(node.uuid, "c", TTL).await.unwrap();
            node.provision_state = state;
            node.provision_updated_at = Some(at(100));
            store.save_node(&lease, &mut node).await.unwrap();
            if name != "a" {
                store.unlock(lease).await.unwrap();
                store
                    .stamp_heartbeats(vec![(node.uuid, at(130))])
                    .await
                    .unwrap();
            }
        }
        let found = store
            .waiting_nodes(&[S::CleanWait, S::DeployWait])
            .await
            .unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|node| (node.provision_state, node.reserved, node.last_sign))
            .collect();
        assert_eq!(
            found,
            [
                (S::CleanWait, true, Some(at(100))),
                (S::DeployWait, false, Some(at(130)))
            ]
        );
        let silent = &store.waiting_nodes(&[S::DeployWait]).await.unwrap()[0];
        assert_eq!(silent.silence(at(150)), Some(Duration::from_secs(20)));
        assert_eq!(silent.silence(at(120)), None);
    }
}
