//! Tables whose rows are named by a UUID: one way of making, finding, listing,
//! saving and deleting for all of them. A table gives its columns and what
//! must be unique; the rest is here.

use std::sync::OnceLock;

use jiff::Timestamp;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::Error;
use crate::Result;
use crate::Store;
use crate::codec;
use crate::codec::Cell;
use crate::db::Db;
use crate::db::DbRow;
use crate::db::is_foreign;
use crate::db::is_unique;
use crate::page::Listed;
use crate::page::Page;
use crate::page::SortDir;
use crate::select::Select;

/// A record that one row of a table holds.
pub trait Row: Clone + Send + Sync + 'static {
    /// Its table.
    fn table() -> &'static Table;
    /// Identity.
    fn uuid(&self) -> Uuid;
    /// Gives a new record another identity.
    fn set_uuid(&mut self, uuid: Uuid);
    /// When it was made.
    fn created_at(&self) -> Timestamp;
    /// When it last changed: which version of it this is.
    fn updated_at(&self) -> Option<Timestamp>;
    /// Makes it another version.
    fn set_updated_at(&mut self, at: Timestamp);
    /// Brings values to the form that they are stored in.
    fn normalise(&mut self) {}
    /// From a row with the table's columns in order. Fails with
    /// [`Error::Corrupt`].
    fn read(row: &DbRow) -> Result<Self>;
    /// Values of the table's columns in order.
    fn cells(&self) -> Vec<Cell>;
}

/// Which rows of a table are wanted.
pub trait Filter: Clone + Send + Sync + 'static {
    /// What it picks from.
    type Row: Row;
    /// Appends ` AND …` for each condition.
    fn push(&self, select: &mut Select);
}

/// Which part of a list is wanted.
#[derive(Debug, Clone, Default)]
pub struct PageQuery {
    /// Column to sort by; none: the order of creation.
    pub sort_key: Option<String>,
    /// Direction.
    pub sort_dir: SortDir,
    /// Go on after this row.
    pub marker: Option<Uuid>,
    /// At most so many.
    pub limit: Option<u32>,
}

impl PageQuery {
    fn page(&self) -> Page<'_> {
        Page {
            sort_key: self.sort_key.as_deref(),
            sort_dir: self.sort_dir,
            marker: self.marker,
            limit: self.limit,
        }
    }
}

/// Columns whose values together no two rows share.
#[derive(Debug)]
pub(crate) struct Unique {
    /// The columns.
    pub(crate) columns: &'static [&'static str],
    /// The error for the values and the row that has them.
    pub(crate) taken: fn(values: &[String], other: Uuid) -> Error,
}

/// A column that holds the UUID of a row of another table.
#[derive(Debug)]
pub(crate) struct Reference {
    /// The column.
    pub(crate) column: &'static str,
    /// The other table's name in SQL.
    pub(crate) table: &'static str,
    /// What its rows are called in errors.
    pub(crate) what: &'static str,
}

impl Reference {
    /// The column `node_uuid`.
    pub(crate) const NODE: Self = Self {
        column: "node_uuid",
        table: "nodes",
        what: "node",
    };
}

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Its name in SQL.
    name: &'static str,
    /// What a row is called in errors.
    what: &'static str,
    /// The columns in order; the first two are written once.
    columns: &'static [&'static str],
    /// Columns that a list can be sorted by.
    sortable: &'static [&'static str],
    unique: &'static [Unique],
    references: &'static [Reference],
    sql: OnceLock<Sql>,
}

/// Columns that are written once: `uuid` and `created_at`.
const UNCHANGING: usize = 2;

#[derive(Debug)]
struct Sql {
    select: String,
    insert: String,
    update: String,
    delete: String,
}

impl Table {
    pub(crate) const fn new(
        name: &'static str,
        what: &'static str,
        columns: &'static [&'static str],
        sortable: &'static [&'static str],
        unique: &'static [Unique],
        references: &'static [Reference],
    ) -> Self {
        Self {
            name,
            what,
            columns,
            sortable,
            unique,
            references,
            sql: OnceLock::new(),
        }
    }

    /// What a row is called in errors.
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// The columns of a row, for reading them one after the other.
    pub(crate) fn columns<'r>(&self, row: &'r DbRow) -> codec::Columns<'r> {
        codec::Columns::new(row, self.name, self.columns)
    }

    fn sql(&self) -> &Sql {
        self.sql.get_or_init(|| {
            let (name, columns) = (self.name, self.columns.join(", "));
            let values = codec::placeholders(self.columns.len());
            let changing = self.columns.get(UNCHANGING..).unwrap_or_default();
            let sets = changing.iter().enumerate();
            let sets: Vec<String> = sets
                .map(|(at, column)| format!("{column} = ${}", at + 1))
                .collect();
            let (uuid, version) = (changing.len() + 1, changing.len() + 2);
            Sql {
                select: format!("SELECT {columns} FROM {name}"),
                insert: format!("INSERT INTO {name} ({columns}) VALUES ({values})"),
                update: format!(
                    "UPDATE {name} SET {} WHERE uuid = ${uuid} AND COALESCE(updated_at, 0) = ${version}",
                    sets.join(", ")
                ),
                delete: format!("DELETE FROM {name} WHERE uuid = $1"),
            }
        })
    }

    fn listed(&self) -> Listed {
        Listed {
            table: self.name,
            what: self.what,
            sortable: self.sortable,
        }
    }

    fn missing(&self, uuid: Uuid) -> Error {
        Error::NotFound {
            what: self.what,
            ident: uuid.to_string(),
        }
    }
}

impl Store {
    /// Stores a new row. Fails as its unique values say, with
    /// [`Error::DuplicateUuid`], or with [`Error::NotFound`] for what it
    /// belongs to.
    pub async fn insert<R: Row>(&self, row: &R) -> Result<()> {
        let mut row = row.clone();
        row.normalise();
        self.write(move |db| {
            Box::pin(async move {
                let insert = R::table().sql().insert.as_str();
                match db.execute(insert, row.cells()).await {
                    Ok(_) => Ok(()),
                    Err(error) => Err(explain(db, &row, true, error).await),
                }
            })
        })
        .await
    }

    /// The row with that UUID.
    pub async fn row<R: Row>(&self, uuid: Uuid) -> Result<Option<R>> {
        self.row_where("uuid", uuid.to_string()).await
    }

    /// The row with that UUID or name, of a table whose rows have names.
    pub async fn row_by_ident<R: Row>(&self, ident: &str) -> Result<Option<R>> {
        match Uuid::try_parse(ident) {
            Ok(uuid) => self.row(uuid).await,
            Err(_) => self.row_where("name", ident.to_owned()).await,
        }
    }

    async fn row_where<R: Row>(&self, column: &'static str, value: String) -> Result<Option<R>> {
        self.read(move |db| {
            Box::pin(async move {
                let sql = format!("{} WHERE {column} = $1", R::table().sql().select);
                // Both parts are constants of this program.
                let row = db.optional(AssertSqlSafe(sql), [value.into()]).await?;
                row.as_ref().map(R::read).transpose()
            })
        })
        .await
    }

    /// The rows that the filter picks, cut to the page.
    pub async fn rows<F: Filter>(&self, filter: &F, page: &PageQuery) -> Result<Vec<F::Row>> {
        let (filter, page) = (filter.clone(), page.clone());
        self.read(move |db| {
            Box::pin(async move {
                let table = F::Row::table();
                let mut select = Select::new(table.sql().select.as_str());
                select.push(" WHERE 1 = 1");
                filter.push(&mut select);
                table.listed().paged(db, &mut select, &page.page()).await?;
                let rows = select.all(db).await?;
                rows.iter().map(F::Row::read).collect()
            })
        })
        .await
    }

    /// Stores all of a row and makes it a new version. Fails as
    /// [`Store::insert`] does, with [`Error::NotFound`], or with
    /// [`Error::Changed`] when the row in the database is another version.
    pub async fn save<R: Row>(&self, row: &mut R) -> Result<()> {
        let mut saved = row.clone();
        let before = saved.updated_at().map_or(0, Timestamp::as_microsecond);
        saved.set_updated_at(codec::now());
        saved.normalise();
        let saved = self
            .write(move |db| {
                Box::pin(async move {
                    let values = saved.cells().into_iter().skip(UNCHANGING);
                    let values = values.chain([saved.uuid().into(), before.into()]);
                    match db.execute(R::table().sql().update.as_str(), values).await {
                        Ok(0) => Err(lost(db, R::table(), saved.uuid()).await),
                        Ok(_) => Ok(saved),
                        Err(error) => Err(explain(db, &saved, false, error).await),
                    }
                })
            })
            .await?;
        *row = saved;
        Ok(())
    }

    /// Deletes the row with that UUID. Fails with [`Error::NotFound`], or with
    /// [`Error::InUse`] while rows of other tables refer to it.
    pub async fn remove<R: Row>(&self, uuid: Uuid) -> Result<()> {
        self.write(move |db| {
            Box::pin(async move {
                let table = R::table();
                match db.execute(table.sql().delete.as_str(), [uuid.into()]).await {
                    Ok(0) => Err(table.missing(uuid)),
                    Ok(_) => Ok(()),
                    Err(error) if is_foreign(&error) => Err(Error::InUse {
                        what: table.what,
                        uuid,
                    }),
                    Err(error) => Err(error.into()),
                }
            })
        })
        .await
    }
}

/// Why a row was not there to be saved.
async fn lost(db: &mut Db, table: &'static Table, uuid: Uuid) -> Error {
    let sql = format!("SELECT uuid FROM {} WHERE uuid = $1", table.name);
    match db.optional(AssertSqlSafe(sql), [uuid.into()]).await {
        Ok(Some(_)) => Error::Changed {
            what: table.what,
            uuid,
        },
        Ok(None) => table.missing(uuid),
        Err(error) => error.into(),
    }
}

/// Gives a failed statement its meaning.
async fn explain<R: Row>(db: &mut Db, row: &R, new: bool, error: sqlx::Error) -> Error {
    match meaning(db, row, new, &error).await {
        Ok(Some(meaning)) => meaning,
        Ok(None) => error.into(),
        Err(failed) => failed.into(),
    }
}

async fn meaning<R: Row>(db: &mut Db, row: &R, new: bool, error: &sqlx::Error) -> Found<Error> {
    if is_foreign(error) {
        db.recover().await?;
        stray(db, row).await
    } else if is_unique(error) {
        db.recover().await?;
        clash(db, row, new).await
    } else {
        Ok(None)
    }
}

type Found<T> = std::result::Result<Option<T>, sqlx::Error>;

fn cell<R: Row>(row: &R, column: &str) -> Option<Cell> {
    let at = R::table().columns.iter().position(|name| *name == column)?;
    row.cells().into_iter().nth(at)
}

/// What the row refers to without it being there.
async fn stray<R: Row>(db: &mut Db, row: &R) -> Found<Error> {
    for reference in R::table().references {
        let Some(Cell::Text(Some(uuid))) = cell(row, reference.column) else {
            continue;
        };
        let sql = format!("SELECT uuid FROM {} WHERE uuid = $1", reference.table);
        let found = db
            .optional(AssertSqlSafe(sql), [uuid.clone().into()])
            .await?;
        if found.is_none() {
            return Ok(Some(Error::NotFound {
                what: reference.what,
                ident: uuid,
            }));
        }
    }
    Ok(None)
}

/// Which unique value of the row another row has.
async fn clash<R: Row>(db: &mut Db, row: &R, new: bool) -> Found<Error> {
    let table = R::table();
    let uuid = row.uuid();
    let select = format!("SELECT uuid FROM {} WHERE uuid ", table.name);
    if new {
        let mut find = Select::new(format!("{select}= "));
        find.push_bind(uuid);
        if find.optional(db).await?.is_some() {
            let what = table.what;
            return Ok(Some(Error::DuplicateUuid { what, uuid }));
        }
    }
    for unique in table.unique {
        let mut find = Select::new(format!("{select}<> "));
        find.push_bind(uuid);
        let mut values = Vec::new();
        for column in unique.columns {
            find.push(format_args!(" AND {column} = "));
            // No value equals none, so that rows without one never clash.
            let cell = cell(row, column).unwrap_or(Cell::Text(None));
            values.push(cell.to_string());
            find.push_bind(cell);
        }
        if let Some(found) = find.optional(db).await? {
            let other = Uuid::try_parse(found.text(0)?.unwrap_or_default()).unwrap_or_default();
            return Ok(Some((unique.taken)(&values, other)));
        }
    }
    Ok(None)
}

/// What rows of all tables say in the same way, from their fields `uuid`,
/// `created_at` and `updated_at`.
macro_rules! identity {
    ($table:ident) => {
        fn table() -> &'static $crate::row::Table {
            &$table
        }

        fn uuid(&self) -> uuid::Uuid {
            self.uuid
        }

        fn set_uuid(&mut self, uuid: uuid::Uuid) {
            self.uuid = uuid;
        }

        fn created_at(&self) -> jiff::Timestamp {
            self.created_at
        }

        fn updated_at(&self) -> Option<jiff::Timestamp> {
            self.updated_at
        }

        fn set_updated_at(&mut self, at: jiff::Timestamp) {
            self.updated_at = Some(at);
        }
    };
}

/// Another row has the name: for tables with a unique `name`.
macro_rules! unique_name {
    ($what:literal) => {
        $crate::row::Unique {
            columns: &["name"],
            taken: |values, _| $crate::Error::DuplicateName {
                what: $what,
                name: values.concat(),
            },
        }
    };
}

pub(crate) use identity;
pub(crate) use unique_name;

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::Filter;
    use super::PageQuery;
    use super::Row;
    use crate::Chassis;
    use crate::DeployTemplate;
    use crate::Error;
    use crate::Portgroup;
    use crate::PortgroupQuery;
    use crate::Runbook;
    use crate::Store;
    use crate::VolumeConnector;
    use crate::VolumeTarget;
    use crate::chassis::ChassisQuery;
    use crate::deploy_template::DeployTemplateQuery;
    use crate::deploy_template::TemplateStep;
    use crate::runbook::RunbookQuery;
    use crate::testing;
    use crate::volume::ConnectorQuery;
    use crate::volume::TargetQuery;

    /// A row comes back as it was stored, one version replaces another, and
    /// only the newest can be replaced.
    async fn lives<F>(store: &Store, row: F::Row, filter: F)
    where
        F: Filter,
        F::Row: PartialEq + std::fmt::Debug,
    {
        store.insert(&row).await.unwrap();
        let uuid = row.uuid();
        let mut read: F::Row = store.row(uuid).await.unwrap().unwrap();
        assert_eq!(read, row);
        let again = store.insert(&row).await.unwrap_err();
        assert!(matches!(again, Error::DuplicateUuid { .. }), "{again}");
        let mut old = read.clone();
        store.save(&mut read).await.unwrap();
        assert!(read.updated_at().is_some());
        let stale = store.save(&mut old).await.unwrap_err();
        assert!(matches!(stale, Error::Changed { .. }), "{stale}");
        let found = store.rows(&filter, &PageQuery::default()).await.unwrap();
        assert_eq!(found, [read.clone()]);
        for key in F::Row::table().sortable {
            let page = PageQuery {
                sort_key: Some((*key).to_owned()),
                marker: Some(uuid),
                ..PageQuery::default()
            };
            assert_eq!(store.rows(&filter, &page).await.unwrap(), [], "{key}");
        }
        store.remove::<F::Row>(uuid).await.unwrap();
        let gone = store.save(&mut read).await.unwrap_err();
        assert!(matches!(gone, Error::NotFound { .. }), "{gone}");
        let gone = store.remove::<F::Row>(uuid).await.unwrap_err();
        assert!(matches!(gone, Error::NotFound { .. }), "{gone}");
    }

    #[tokio::test]
    async fn every_table_lives() {
        let store = testing::store().await;
        let node_uuid = testing::stored(&store, "a").await.uuid;
        let extra = json!({"k": [1, null]}).as_object().cloned().unwrap();
        let chassis = Chassis {
            description: Some("rack".to_owned()),
            extra: extra.clone(),
            ..Chassis::default()
        };
        lives(&store, chassis, ChassisQuery).await;
        let group = Portgroup {
            node_uuid,
            name: Some("bond0".to_owned()),
            address: Some("52:54:00:00:00:0a".to_owned()),
            ..Portgroup::default()
        };
        let query = PortgroupQuery {
            node_uuid: Some(node_uuid),
            address: Some("52:54:00:00:00:0A".to_owned()),
            ..PortgroupQuery::default()
        };
        lives(&store, group, query).await;
        let template = DeployTemplate {
            name: "CUSTOM_T".to_owned(),
            steps: vec![TemplateStep {
                interface: "bios".to_owned(),
                step: "s".to_owned(),
                args: extra.clone(),
                priority: 7,
            }],
            ..DeployTemplate::default()
        };
        let names = vec!["CUSTOM_T".to_owned(), "CUSTOM_U".to_owned()];
        lives(&store, template, DeployTemplateQuery { names }).await;
        let book = Runbook {
            name: "CUSTOM_R".to_owned(),
            traits: vec!["CUSTOM_A".to_owned()],
            ..Runbook::default()
        };
        lives(&store, book, RunbookQuery).await;
        let node = Some(node_uuid);
        let connector = VolumeConnector {
            node_uuid,
            kind: "iqn".to_owned(),
            connector_id: "iqn.x".to_owned(),
            ..VolumeConnector::default()
        };
        lives(&store, connector, ConnectorQuery { node_uuid: node }).await;
        let target = VolumeTarget {
            node_uuid,
            volume_type: "iscsi".to_owned(),
            boot_index: 3,
            ..VolumeTarget::default()
        };
        lives(&store, target, TargetQuery { node_uuid: node }).await;
    }

    #[tokio::test]
    async fn what_must_be_unique_and_what_must_exist() {
        let store = testing::store().await;
        let node_uuid = testing::stored(&store, "a").await.uuid;
        let target = || VolumeTarget {
            node_uuid,
            boot_index: 1,
            ..VolumeTarget::default()
        };
        store.insert(&target()).await.unwrap();
        let error = store.insert(&target()).await.unwrap_err();
        assert!(matches!(error, Error::Duplicate { .. }), "{error}");
        let group = || Portgroup {
            node_uuid,
            ..Portgroup::default()
        };
        let (first, mut second) = (group(), group());
        store.insert(&first).await.unwrap();
        store.insert(&second).await.unwrap();
        let mut named = first.clone();
        named.name = Some("bond0".to_owned());
        store.save(&mut named).await.unwrap();
        second.name = Some("bond0".to_owned());
        let error = store.save(&mut second).await.unwrap_err();
        assert!(matches!(error, Error::DuplicateName { .. }), "{error}");
        let stray = Portgroup::default();
        let error = store.insert(&stray).await.unwrap_err();
        assert!(matches!(error, Error::NotFound { what: "node", .. }));

        let mut port = testing::port(node_uuid, "52:54:00:00:00:01");
        port.portgroup_uuid = Some(Uuid::new_v4());
        let error = store.insert(&port).await.unwrap_err();
        let what = "portgroup";
        assert!(matches!(error, Error::NotFound { what: w, .. } if w == what));
        port.portgroup_uuid = Some(first.uuid);
        store.insert(&port).await.unwrap();
        let error = store.remove::<Portgroup>(first.uuid).await.unwrap_err();
        assert!(matches!(error, Error::InUse { .. }), "{error}");
        let lease = store.lock_node(node_uuid, "x", std::time::Duration::from_secs(60));
        store.destroy_node(&lease.await.unwrap()).await.unwrap();
        let left = store.row::<Portgroup>(first.uuid).await.unwrap();
        assert_eq!(left, None, "it goes with its node, ports included");
    }
}
