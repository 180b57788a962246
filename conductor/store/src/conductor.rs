//! Conductors: who lives, with which drivers.

use std::time::Duration;

use jiff::Timestamp;

use crate::Error;
use crate::Result;
use crate::Store;
use crate::codec;
use crate::codec::Cell;
use crate::codec::Columns;
use crate::db::DbRow;

/// One conductor as it registered.
#[derive(Debug, Clone, PartialEq)]
pub struct Conductor {
    /// Its host name, unique.
    pub hostname: String,
    /// The group of nodes that it serves; lower case.
    pub conductor_group: String,
    /// Hardware types that it has.
    pub drivers: Vec<String>,
    /// False after an orderly end.
    pub online: bool,
    /// When it first registered.
    pub created_at: Timestamp,
    /// When it last said that it lives.
    pub updated_at: Timestamp,
}

impl Conductor {
    /// Whether it is online and said so within `timeout` before now.
    pub fn is_alive(&self, timeout: Duration) -> bool {
        let age = codec::now()
            .as_microsecond()
            .saturating_sub(self.updated_at.as_microsecond());
        self.online && i128::from(age) <= i128::try_from(timeout.as_micros()).unwrap_or(i128::MAX)
    }
}

const COLUMNS: &[&str] = &[
    "hostname",
    "conductor_group",
    "drivers",
    "online",
    "created_at",
    "updated_at",
];

fn read(row: &DbRow) -> Result<Conductor> {
    let mut column = Columns::new(row, "conductors", COLUMNS);
    Ok(Conductor {
        hostname: column.text()?,
        conductor_group: column.text()?,
        drivers: column.json()?,
        online: column.bool()?,
        created_at: column.time()?,
        updated_at: column.time()?,
    })
}

impl Store {
    /// Registers a conductor, or again one that was there before.
    pub async fn register_conductor(
        &self,
        host: &str,
        group: &str,
        drivers: &[String],
    ) -> Result<()> {
        let cells = [
            Cell::text(host),
            Cell::text(group.to_lowercase()),
            Cell::json(&drivers),
            Cell::time(Some(codec::now())),
        ];
        self.write(move |db| {
            Box::pin(async move {
                let insert =
                    "INSERT INTO conductors (hostname, conductor_group, drivers, online, created_at, updated_at) \
                     VALUES ($1, $2, $3, 1, $4, $4) ON CONFLICT (hostname) DO UPDATE SET \
                     conductor_group = $2, drivers = $3, online = 1, updated_at = $4";
                db.execute(insert, cells).await?;
                Ok(())
            })
        })
        .await
    }

    /// Says that the conductor lives.
    pub async fn touch_conductor(&self, host: &str) -> Result<()> {
        self.mark_conductor(host, true).await
    }

    /// Takes the conductor off line: an orderly end.
    pub async fn unregister_conductor(&self, host: &str) -> Result<()> {
        self.mark_conductor(host, false).await
    }

    async fn mark_conductor(&self, host: &str, online: bool) -> Result<()> {
        let host = host.to_owned();
        self.write(move |db| {
            Box::pin(async move {
                let sql = "UPDATE conductors SET online = $1, updated_at = $2 WHERE hostname = $3";
                let cells = [Cell::bool(online), codec::now().into(), Cell::text(&host)];
                match db.execute(sql, cells).await? {
                    0 => Err(Error::NotFound {
                        what: "conductor",
                        ident: host,
                    }),
                    _ => Ok(()),
                }
            })
        })
        .await
    }

    /// Deletes conductors that were last heard of before `before`, except
    /// `host`; at most `limit` of them. Gives their names.
    pub async fn forget_conductors(
        &self,
        host: &str,
        before: Timestamp,
        limit: u32,
    ) -> Result<Vec<String>> {
        let host = host.to_owned();
        self.write(move |db| {
            Box::pin(async move {
                let sql = "DELETE FROM conductors WHERE hostname IN (SELECT hostname \
                           FROM conductors WHERE updated_at < $1 AND hostname <> $2 \
                           ORDER BY hostname LIMIT $3) RETURNING hostname";
                let cells = [before.into(), host.into(), i64::from(limit).into()];
                let rows = db.all(sql, cells).await?;
                rows.iter()
                    .map(|row| Columns::new(row, "conductors", &["hostname"]).text())
                    .collect()
            })
        })
        .await
    }

    /// All conductors by host name.
    pub async fn conductors(&self) -> Result<Vec<Conductor>> {
        self.read_row(|db| {
            Box::pin(async move {
                let sql = "SELECT hostname, conductor_group, drivers, online, created_at, updated_at \
                           FROM conductors ORDER BY hostname";
                let rows = db.all(sql, []).await?;
                rows.iter().map(read).collect()
            })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use crate::Error;
    use crate::codec;
    use crate::testing;

    #[tokio::test]
    async fn registers_lives_and_leaves() {
        let store = testing::store().await;
        let missing = store.touch_conductor("c1").await.unwrap_err();
        assert!(matches!(
            missing,
            Error::NotFound {
                what: "conductor",
                ..
            }
        ));
        store
            .register_conductor("c1", "Rack-A", &["redfish".to_owned()])
            .await
            .unwrap();
        let first = store.conductors().await.unwrap().remove(0);
        assert_eq!(
            (first.conductor_group.as_str(), first.online),
            ("rack-a", true)
        );
        assert!(first.is_alive(Duration::from_secs(60)));
        store.unregister_conductor("c1").await.unwrap();
        let gone = store.conductors().await.unwrap().remove(0);
        assert!(!gone.is_alive(Duration::from_secs(60)));
        let drivers = vec!["ipmi".to_owned(), "redfish".to_owned()];
        store.register_conductor("c1", "", &drivers).await.unwrap();
        store.touch_conductor("c1").await.unwrap();
        let again = store.conductors().await.unwrap();
        assert_eq!(again.len(), 1);
        assert_eq!(
            (&again[0].drivers, again[0].created_at),
            (&drivers, first.created_at)
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(!again[0].is_alive(Duration::from_millis(1)));
    }

    #[tokio::test]
    async fn those_not_heard_of_are_forgotten() {
        let store = testing::store().await;
        for host in ["a", "b", "me"] {
            store.register_conductor(host, "", &[]).await.unwrap();
        }
        let before = codec::now();
        let early = Timestamp::from_second(1).unwrap();
        let none = store.forget_conductors("me", early, 50).await.unwrap();
        assert!(none.is_empty());
        tokio::time::sleep(Duration::from_millis(5)).await;
        store.touch_conductor("b").await.unwrap();
        let later = before + Duration::from_millis(1);
        let gone = store.forget_conductors("me", later, 50).await.unwrap();
        assert_eq!(gone, ["a"]);
        let far = Timestamp::now() + Duration::from_secs(60);
        let gone = store.forget_conductors("me", far, 0).await.unwrap();
        assert!(gone.is_empty());
        let gone = store.forget_conductors("me", far, 50).await.unwrap();
        assert_eq!(gone, ["b"]);
        assert_eq!(store.conductors().await.unwrap().len(), 1);
    }
}
