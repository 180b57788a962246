//! Statements on rows, and what a failed one means.

use jiff::Timestamp;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::Filter;
use super::PageQuery;
use super::Row;
use super::Table;
use super::UNCHANGING;
use crate::Error;
use crate::Result;
use crate::Store;
use crate::codec;
use crate::codec::Cell;
use crate::db::Db;
use crate::db::is_foreign;
use crate::db::is_unique;
use crate::select::Select;

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
        self.read_row(move |db| {
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
