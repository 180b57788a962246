//! Conductors: who lives, with which drivers.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use crate::Change;
use crate::Result;
use crate::Store;
use crate::codec::Cell;
use crate::codec::Columns;
use crate::db::Db;
use crate::db::DbRow;

/// Names of implementations by hardware type and kind of interface, the
/// default first.
pub type Interfaces = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// Settings of nodes with their descriptions by hardware type.
pub type Properties = BTreeMap<String, BTreeMap<String, String>>;

/// One conductor as it registered.
#[derive(Debug, Clone, PartialEq)]
pub struct Conductor {
    /// Its host name, unique.
    pub hostname: String,
    /// The group of nodes that it serves; lower case.
    pub conductor_group: String,
    /// Hardware types that it has.
    pub drivers: Vec<String>,
    /// What each of them is composed of.
    pub interfaces: Interfaces,
    /// What each of them takes as `driver_info`.
    pub properties: Properties,
    /// Base URL where it takes calls of other processes; none: nowhere.
    pub rpc_url: Option<String>,
    /// This life of its process.
    pub instance: Uuid,
    /// False after an orderly end.
    pub online: bool,
    /// When it first registered.
    pub created_at: Timestamp,
    /// When it last said that it lives.
    pub updated_at: Timestamp,
    /// How long ago that was when the row was read, by the database's clock.
    pub silence: Duration,
}

impl Conductor {
    /// Whether it is online and was not silent for longer than `timeout`.
    pub fn is_alive(&self, timeout: Duration) -> bool {
        self.online && self.silence <= timeout
    }
}

/// What a conductor tells of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Registration {
    /// Its host name, unique.
    pub hostname: String,
    /// The group of nodes that it serves, in any case.
    pub conductor_group: String,
    /// Hardware types that it has.
    pub drivers: Vec<String>,
    /// What each of them is composed of.
    pub interfaces: Interfaces,
    /// What each of them takes as `driver_info`.
    pub properties: Properties,
    /// Base URL where it takes calls of other processes; none: nowhere.
    pub rpc_url: Option<String>,
    /// This life of its process.
    pub instance: Uuid,
}

impl Registration {
    /// A new life of a conductor that nobody else can call.
    pub fn new(host: &str, group: &str, drivers: &[String]) -> Self {
        Self {
            hostname: host.to_owned(),
            conductor_group: group.to_owned(),
            drivers: drivers.to_vec(),
            interfaces: Interfaces::new(),
            properties: Properties::new(),
            rpc_url: None,
            instance: Uuid::new_v4(),
        }
    }
}

/// What became of a sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It was noted.
    Noted,
    /// It came too late: the others count the conductor as dead and may have
    /// taken over its nodes. It is to drop what it is at and register anew.
    Late,
    /// Another process has registered by the same name and lives.
    Replaced,
}

const COLUMNS: &[&str] = &[
    "hostname",
    "conductor_group",
    "drivers",
    "online",
    "created_at",
    "updated_at",
    "instance",
    "rpc_url",
    "interfaces",
    "properties",
];

fn read(row: &DbRow, now: Timestamp) -> Result<Conductor> {
    let mut column = Columns::new(row, "conductors", COLUMNS);
    let mut conductor = Conductor {
        hostname: column.text()?,
        conductor_group: column.text()?,
        drivers: column.json()?,
        online: column.bool()?,
        created_at: column.time()?,
        updated_at: column.time()?,
        instance: column.parse()?,
        rpc_url: column.maybe_text()?,
        interfaces: column.json()?,
        properties: column.json()?,
        silence: Duration::ZERO,
    };
    let silence = now.duration_since(conductor.updated_at);
    // Negative where its sign came after `now`.
    conductor.silence = Duration::try_from(silence).unwrap_or_default();
    Ok(conductor)
}

async fn find(db: &mut Db, host: &str, now: Timestamp) -> Result<Option<Conductor>> {
    let sql = "SELECT hostname, conductor_group, drivers, online, created_at, updated_at, \
               instance, rpc_url, interfaces, properties FROM conductors WHERE hostname = $1";
    let row = db.optional(sql, [Cell::text(host)]).await?;
    row.map(|row| read(&row, now)).transpose()
}

impl Store {
    /// Registers a conductor, or again one that was there before. Gives the
    /// row that it takes over, if another life of the process left one that
    /// did not end in order.
    pub async fn register_conductor(&self, own: &Registration) -> Result<Option<Conductor>> {
        let (own, clock) = (own.clone(), self.clock());
        let told = |_: &Option<Conductor>| vec![Change::Conductors];
        self.write_again(told, move |db| {
            Box::pin(async move {
                clock.read(db).await?;
                let now = clock.now();
                let before = find(db, &own.hostname, now).await?;
                let insert = "INSERT INTO conductors (hostname, conductor_group, drivers, online, \
                     created_at, updated_at, instance, rpc_url, interfaces, properties) \
                     VALUES ($1, $2, $3, 1, $4, $4, $5, $6, $7, $8) ON CONFLICT (hostname) DO UPDATE \
                     SET conductor_group = $2, drivers = $3, online = 1, updated_at = $4, \
                     instance = $5, rpc_url = $6, interfaces = $7, properties = $8";
                let cells = [
                    Cell::text(&own.hostname),
                    Cell::text(own.conductor_group.to_lowercase()),
                    Cell::json(&own.drivers),
                    now.into(),
                    own.instance.into(),
                    Cell::maybe(own.rpc_url.as_ref()),
                    Cell::json(&own.interfaces),
                    Cell::json(&own.properties),
                ];
                db.execute(insert, cells).await?;
                Ok(before.filter(|before| before.online && before.instance != own.instance))
            })
        })
        .await
    }

    /// Says that this life of the conductor goes on, unless it was silent for
    /// longer than `dead_after`.
    pub async fn touch_conductor(
        &self,
        host: &str,
        instance: Uuid,
        dead_after: Duration,
    ) -> Result<Sign> {
        let (host, clock) = (host.to_owned(), self.clock());
        self.write_again(crate::nothing, move |db| {
            Box::pin(async move {
                clock.read(db).await?;
                let now = clock.now();
                let longest = i64::try_from(dead_after.as_micros()).unwrap_or(i64::MAX);
                let earliest = now.as_microsecond().saturating_sub(longest);
                let sql = "UPDATE conductors SET updated_at = $1 WHERE hostname = $2 \
                           AND instance = $3 AND online = 1 AND updated_at >= $4";
                let cells = [
                    now.into(),
                    Cell::text(&host),
                    instance.into(),
                    earliest.into(),
                ];
                if db.execute(sql, cells).await? == 1 {
                    return Ok(Sign::Noted);
                }
                let other = find(db, &host, now).await?;
                let other = other.filter(|other| other.instance != instance);
                Ok(
                    match other.is_some_and(|other| other.is_alive(dead_after)) {
                        true => Sign::Replaced,
                        false => Sign::Late,
                    },
                )
            })
        })
        .await
    }

    /// Takes this life of the conductor off line: an orderly end. A row that
    /// another one has taken over is left alone.
    pub async fn unregister_conductor(&self, host: &str, instance: Uuid) -> Result<()> {
        let (host, clock) = (host.to_owned(), self.clock());
        let told = |_: &()| vec![Change::Conductors];
        self.write_again(told, move |db| {
            Box::pin(async move {
                let sql = "UPDATE conductors SET online = 0, updated_at = $1 \
                           WHERE hostname = $2 AND instance = $3";
                let cells = [clock.now().into(), Cell::text(&host), instance.into()];
                db.execute(sql, cells).await?;
                Ok(())
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
        let clock = self.clock();
        self.read_row(move |db| {
            Box::pin(async move {
                let sql = "SELECT hostname, conductor_group, drivers, online, created_at, \
                           updated_at, instance, rpc_url, interfaces, properties \
                           FROM conductors ORDER BY hostname";
                let rows = db.all(sql, []).await?;
                let now = clock.now();
                rows.iter().map(|row| read(row, now)).collect()
            })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::Registration;
    use super::Sign;
    use crate::codec;
    use crate::testing;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn registers_lives_and_leaves() {
        let store = testing::store().await;
        let own = Registration {
            rpc_url: Some("https://c1:8089".to_owned()),
            interfaces: [(
                "redfish".to_owned(),
                [("boot".to_owned(), vec!["ipxe".to_owned()])].into(),
            )]
            .into(),
            ..Registration::new("c1", "Rack-A", &["redfish".to_owned()])
        };
        let early = store.touch_conductor("c1", own.instance, MINUTE).await;
        assert_eq!(early.unwrap(), Sign::Late, "it is not registered");
        assert_eq!(store.register_conductor(&own).await.unwrap(), None);
        let first = store.conductors().await.unwrap().remove(0);
        assert_eq!(
            (first.conductor_group.as_str(), first.online),
            ("rack-a", true)
        );
        assert_eq!(
            (&first.interfaces, &first.rpc_url, first.instance),
            (&own.interfaces, &own.rpc_url, own.instance)
        );
        assert!(first.is_alive(MINUTE));
        store
            .unregister_conductor("c1", own.instance)
            .await
            .unwrap();
        let gone = store.conductors().await.unwrap().remove(0);
        assert!(!gone.is_alive(MINUTE));
        let next = Registration::new("c1", "", &["ipmi".to_owned(), "redfish".to_owned()]);
        let before = store.register_conductor(&next).await.unwrap();
        assert_eq!(before, None, "that one ended in order");
        let sign = store.touch_conductor("c1", next.instance, MINUTE).await;
        assert_eq!(sign.unwrap(), Sign::Noted);
        let again = store.conductors().await.unwrap();
        assert_eq!(again.len(), 1);
        assert_eq!(
            (&again[0].drivers, again[0].created_at),
            (&next.drivers, first.created_at)
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
        let late = store.conductors().await.unwrap().remove(0);
        assert!(!late.is_alive(Duration::from_millis(1)));
    }

    #[tokio::test]
    async fn a_row_of_the_same_name_is_taken_over_and_the_former_life_learns_it() {
        let store = testing::store().await;
        let (old, new) = (
            Registration::new("c1", "", &[]),
            Registration::new("c1", "", &[]),
        );
        store.register_conductor(&old).await.unwrap();
        let before = store.register_conductor(&new).await.unwrap().unwrap();
        assert_eq!(before.instance, old.instance);
        let sign = store.touch_conductor("c1", old.instance, MINUTE).await;
        assert_eq!(sign.unwrap(), Sign::Replaced);
        store
            .unregister_conductor("c1", old.instance)
            .await
            .unwrap();
        assert!(store.conductors().await.unwrap()[0].online, "not its own");
        store
            .unregister_conductor("c1", new.instance)
            .await
            .unwrap();
        let sign = store.touch_conductor("c1", old.instance, MINUTE).await;
        assert_eq!(sign.unwrap(), Sign::Late, "the name is free again");
    }

    #[tokio::test]
    async fn one_that_was_silent_for_too_long_is_told_so() {
        let store = testing::store().await;
        let own = Registration::new("c1", "", &[]);
        store.register_conductor(&own).await.unwrap();
        tokio::time::sleep(Duration::from_millis(30)).await;
        let short = Duration::from_millis(10);
        let sign = store.touch_conductor("c1", own.instance, short).await;
        assert_eq!(sign.unwrap(), Sign::Late);
        assert!(!store.conductors().await.unwrap()[0].is_alive(short));
        // It says so by registering, and has its row back.
        assert_eq!(store.register_conductor(&own).await.unwrap(), None);
        let sign = store.touch_conductor("c1", own.instance, MINUTE).await;
        assert_eq!(sign.unwrap(), Sign::Noted);
    }

    #[tokio::test]
    async fn those_not_heard_of_are_forgotten() {
        let store = testing::store().await;
        let (a, b, me) = (
            Registration::new("a", "", &[]),
            Registration::new("b", "", &[]),
            Registration::new("me", "", &[]),
        );
        for own in [&a, &b, &me] {
            store.register_conductor(own).await.unwrap();
        }
        let before = codec::now();
        let early = Timestamp::from_second(1).unwrap();
        let none = store.forget_conductors("me", early, 50).await.unwrap();
        assert!(none.is_empty());
        tokio::time::sleep(Duration::from_millis(5)).await;
        let sign = store.touch_conductor("b", b.instance, MINUTE).await;
        assert_eq!(sign.unwrap(), Sign::Noted);
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
