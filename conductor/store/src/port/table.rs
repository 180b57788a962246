//! Making, finding, saving and deleting ports.

use std::sync::LazyLock;

use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::Port;
use crate::Db;
use crate::Error;
use crate::Result;
use crate::Store;
use crate::codec;
use crate::codec::Cell;
use crate::codec::Columns;
use crate::node::is_unique;

/// The columns that a port is written to, in order; the first two are written
/// once.
const COLUMNS: &[&str] = &[
    "uuid",
    "created_at",
    "address",
    "node_uuid",
    "name",
    "description",
    "extra",
    "internal_info",
    "local_link_connection",
    "pxe_enabled",
    "physical_network",
    "is_smartnic",
    "vendor",
    "category",
    "updated_at",
];

const UNCHANGING: usize = 2;

/// Columns that a list can be sorted by.
pub(super) const SORTABLE: &[&str] = &[
    "uuid",
    "created_at",
    "address",
    "node_uuid",
    "name",
    "description",
    "pxe_enabled",
    "physical_network",
    "is_smartnic",
    "vendor",
    "category",
    "updated_at",
];

/// `SELECT` of everything that [`read`] takes.
pub(super) static SELECT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM ports", COLUMNS.join(", ")));

static INSERT: LazyLock<String> = LazyLock::new(|| {
    let values = codec::placeholders(COLUMNS.len());
    format!(
        "INSERT INTO ports ({}) VALUES ({values})",
        COLUMNS.join(", ")
    )
});

static UPDATE: LazyLock<String> = LazyLock::new(|| {
    let columns = &COLUMNS[UNCHANGING..];
    let sets: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(i, column)| format!("{column} = ${}", i + 1))
        .collect();
    format!(
        "UPDATE ports SET {} WHERE uuid = ${}",
        sets.join(", "),
        columns.len() + 1
    )
});

/// A port from a row of [`SELECT`].
pub(super) fn read(row: &SqliteRow) -> Result<Port> {
    let mut column = Columns::new(row, "ports", COLUMNS);
    Ok(Port {
        uuid: column.key()?,
        created_at: column.time()?,
        address: column.text()?,
        node_uuid: column.parse()?,
        name: column.maybe_text()?,
        description: column.maybe_text()?,
        extra: column.json()?,
        internal_info: column.json()?,
        local_link_connection: column.json()?,
        pxe_enabled: column.bool()?,
        physical_network: column.maybe_text()?,
        is_smartnic: column.bool()?,
        vendor: column.maybe_text()?,
        category: column.maybe_text()?,
        updated_at: column.maybe_time()?,
    })
}

fn cells(port: &Port) -> Vec<Cell> {
    vec![
        Cell::text(port.uuid.to_string()),
        Cell::time(Some(port.created_at)),
        Cell::text(port.address.to_lowercase()),
        Cell::text(port.node_uuid.to_string()),
        Cell::maybe(port.name.as_ref()),
        Cell::maybe(port.description.as_ref()),
        Cell::json(&port.extra),
        Cell::json(&port.internal_info),
        Cell::json(&port.local_link_connection),
        Cell::bool(port.pxe_enabled),
        Cell::maybe(port.physical_network.as_ref()),
        Cell::bool(port.is_smartnic),
        Cell::maybe(port.vendor.as_ref()),
        Cell::maybe(port.category.as_ref()),
        Cell::time(port.updated_at),
    ]
}

impl Store {
    /// Stores a new port. Fails with [`Error::DuplicateAddress`],
    /// [`Error::DuplicateName`], [`Error::DuplicateUuid`] or
    /// [`Error::NotFound`] for its node.
    pub async fn create_port(&self, port: &Port) -> Result<()> {
        let port = port.clone();
        self.write(move |db| {
            Box::pin(async move {
                let insert = codec::bind(sqlx::query(INSERT.as_str()), cells(&port));
                match insert.execute(&mut *db).await {
                    Ok(_) => Ok(()),
                    Err(error) => Err(explain(db, &port, true, error).await),
                }
            })
        })
        .await
    }

    /// The port with that UUID.
    pub async fn port(&self, uuid: Uuid) -> Result<Option<Port>> {
        self.one_port("uuid", uuid.to_string()).await
    }

    /// The port with that UUID or name.
    pub async fn port_by_ident(&self, ident: &str) -> Result<Option<Port>> {
        match Uuid::try_parse(ident) {
            Ok(uuid) => self.port(uuid).await,
            Err(_) => self.one_port("name", ident.to_owned()).await,
        }
    }

    async fn one_port(&self, column: &'static str, value: String) -> Result<Option<Port>> {
        self.read(move |db| {
            Box::pin(async move {
                let sql = format!("{} WHERE {column} = $1", SELECT.as_str());
                // Both parts are constants of this program.
                let row = sqlx::query(sqlx::AssertSqlSafe(sql))
                    .bind(value)
                    .fetch_optional(db)
                    .await?;
                row.as_ref().map(read).transpose()
            })
        })
        .await
    }

    /// Stores all of the port and sets its `updated_at`. Fails as
    /// [`Store::create_port`] does, or with [`Error::NotFound`].
    pub async fn save_port(&self, port: &mut Port) -> Result<()> {
        let mut saved = port.clone();
        saved.updated_at = Some(codec::now());
        saved.address = saved.address.to_lowercase();
        let saved = self
            .write(move |db| {
                Box::pin(async move {
                    let values = cells(&saved).into_iter().skip(UNCHANGING);
                    let update = codec::bind(sqlx::query(UPDATE.as_str()), values)
                        .bind(saved.uuid.to_string());
                    match update.execute(&mut *db).await {
                        Ok(done) if done.rows_affected() == 0 => Err(no_port(saved.uuid)),
                        Ok(_) => Ok(saved),
                        Err(error) => Err(explain(db, &saved, false, error).await),
                    }
                })
            })
            .await?;
        *port = saved;
        Ok(())
    }

    /// Deletes the port. Fails with [`Error::NotFound`].
    pub async fn destroy_port(&self, uuid: Uuid) -> Result<()> {
        self.write(move |db| {
            Box::pin(async move {
                let done = sqlx::query("DELETE FROM ports WHERE uuid = $1")
                    .bind(uuid.to_string())
                    .execute(db)
                    .await?;
                match done.rows_affected() {
                    0 => Err(no_port(uuid)),
                    _ => Ok(()),
                }
            })
        })
        .await
    }
}

fn no_port(uuid: Uuid) -> Error {
    Error::NotFound {
        what: "port",
        ident: uuid.to_string(),
    }
}

/// Gives a failed statement its meaning.
async fn explain(db: &mut Db, port: &Port, new: bool, error: sqlx::Error) -> Error {
    let foreign = error
        .as_database_error()
        .is_some_and(|cause| cause.is_foreign_key_violation());
    if foreign {
        return Error::no_node(port.node_uuid);
    }
    if !is_unique(&error) {
        return error.into();
    }
    match find_clash(db, port, new).await {
        Ok(Some(clash)) => clash,
        Ok(None) => error.into(),
        Err(failed) => failed.into(),
    }
}

async fn find_clash(
    db: &mut Db,
    port: &Port,
    new: bool,
) -> std::result::Result<Option<Error>, sqlx::Error> {
    let uuid = port.uuid.to_string();
    if new {
        let found = sqlx::query("SELECT uuid FROM ports WHERE uuid = $1")
            .bind(&uuid)
            .fetch_optional(&mut *db)
            .await?;
        if found.is_some() {
            return Ok(Some(Error::DuplicateUuid {
                what: "port",
                uuid: port.uuid,
            }));
        }
    }
    let address = port.address.to_lowercase();
    let found = sqlx::query("SELECT uuid FROM ports WHERE address = $1 AND uuid <> $2")
        .bind(&address)
        .bind(&uuid)
        .fetch_optional(&mut *db)
        .await?;
    if let Some(found) = found {
        let other: String = found.try_get(0)?;
        let port = Uuid::try_parse(&other).unwrap_or_default();
        return Ok(Some(Error::DuplicateAddress { address, port }));
    }
    let Some(name) = &port.name else {
        return Ok(None);
    };
    let found = sqlx::query("SELECT uuid FROM ports WHERE name = $1 AND uuid <> $2")
        .bind(name)
        .bind(&uuid)
        .fetch_optional(&mut *db)
        .await?;
    Ok(found.map(|_| Error::DuplicateName {
        what: "port",
        name: name.clone(),
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use crate::Error;
    use crate::testing;

    #[tokio::test]
    async fn stored_changed_and_deleted() {
        let store = testing::store().await;
        let node = testing::stored(&store, "a").await;
        let mut port = testing::port(node.uuid, "52:54:00:00:00:01");
        port.name = Some("eth0".to_owned());
        port.extra.insert("k".to_owned(), json!([1, null]));
        store.create_port(&port).await.unwrap();
        assert_eq!(store.port(port.uuid).await.unwrap(), Some(port.clone()));
        assert_eq!(
            store.port_by_ident("eth0").await.unwrap(),
            Some(port.clone())
        );
        port.address = "52:54:00:00:00:0A".to_owned();
        port.pxe_enabled = false;
        port.vendor = Some("acme".to_owned());
        store.save_port(&mut port).await.unwrap();
        assert_eq!(port.address, "52:54:00:00:00:0a");
        assert!(port.updated_at.is_some());
        let ident = port.uuid.to_string();
        assert_eq!(
            store.port_by_ident(&ident).await.unwrap(),
            Some(port.clone())
        );
        store.destroy_port(port.uuid).await.unwrap();
        let gone = store.destroy_port(port.uuid).await.unwrap_err();
        assert!(matches!(gone, Error::NotFound { what: "port", .. }));
        let gone = store.save_port(&mut port).await.unwrap_err();
        assert!(matches!(gone, Error::NotFound { what: "port", .. }));
    }

    #[tokio::test]
    async fn clashes_are_typed() {
        let store = testing::store().await;
        let node = testing::stored(&store, "a").await;
        let mut first = testing::port(node.uuid, "52:54:00:00:00:01");
        first.name = Some("eth0".to_owned());
        store.create_port(&first).await.unwrap();

        let same = testing::port(node.uuid, "52:54:00:00:00:01".to_uppercase().as_str());
        let error = store.create_port(&same).await.unwrap_err();
        assert!(matches!(error, Error::DuplicateAddress { port, .. } if port == first.uuid));
        let mut named = testing::port(node.uuid, "52:54:00:00:00:02");
        store.create_port(&named).await.unwrap();
        named.name = Some("eth0".to_owned());
        let error = store.save_port(&mut named).await.unwrap_err();
        assert!(matches!(error, Error::DuplicateName { what: "port", .. }));
        let error = store.create_port(&first).await.unwrap_err();
        assert!(matches!(error, Error::DuplicateUuid { what: "port", .. }));
        let stray = testing::port(Uuid::new_v4(), "52:54:00:00:00:03");
        let error = store.create_port(&stray).await.unwrap_err();
        assert!(matches!(error, Error::NotFound { what: "node", .. }));
    }
}
