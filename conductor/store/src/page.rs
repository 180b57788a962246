//! Pages of a list: sorting by a column, the row's number as tie break, and
//! going on after a marker.

use uuid::Uuid;

use crate::Error;
use crate::Result;
use crate::codec::Cell;
use crate::db::Db;
use crate::select::Select;

/// Direction of a sorted list. Rows without a value are first when ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortDir {
    /// Smallest first.
    #[default]
    Asc,
    /// Largest first.
    Desc,
}

/// Which part of a list is wanted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page<'a> {
    pub(crate) sort_key: Option<&'a str>,
    pub(crate) sort_dir: SortDir,
    pub(crate) marker: Option<Uuid>,
    pub(crate) limit: Option<u32>,
}

/// A table that can be listed.
pub(crate) struct Listed {
    /// Its name in SQL.
    pub(crate) table: &'static str,
    /// What a row is called in errors.
    pub(crate) what: &'static str,
    /// Columns that it can be sorted by, beside `id`.
    pub(crate) sortable: &'static [&'static str],
}

impl Listed {
    fn column(&self, key: Option<&str>) -> Result<&'static str> {
        let Some(key) = key.filter(|key| *key != "id") else {
            return Ok("id");
        };
        self.sortable
            .iter()
            .find(|column| **column == key)
            .copied()
            .ok_or_else(|| Error::InvalidSortKey {
                what: self.what,
                key: key.to_owned(),
            })
    }

    /// Appends `AND …`, `ORDER BY …` and `LIMIT …` to a SELECT that has a
    /// WHERE clause.
    pub(crate) async fn paged(
        &self,
        db: &mut Db,
        select: &mut Select,
        page: &Page<'_>,
    ) -> Result<()> {
        let column = self.column(page.sort_key)?;
        if let Some(marker) = page.marker {
            self.after(db, select, column, page.sort_dir, marker)
                .await?;
        }
        let dir = match page.sort_dir {
            SortDir::Asc => "ASC",
            SortDir::Desc => "DESC",
        };
        if column == "id" {
            select.push(format_args!(" ORDER BY id {dir}"));
        } else {
            // Databases differ in where they put NULL: say it.
            select.push(format_args!(
                " ORDER BY CASE WHEN {column} IS NULL THEN 0 ELSE 1 END {dir}, {column} {dir}, id {dir}"
            ));
        }
        if let Some(limit) = page.limit {
            select.push(" LIMIT ").push_bind(i64::from(limit));
        }
        Ok(())
    }

    /// Appends the condition that a row comes after the marker's.
    async fn after(
        &self,
        db: &mut Db,
        select: &mut Select,
        column: &'static str,
        dir: SortDir,
        marker: Uuid,
    ) -> Result<()> {
        let table = self.table;
        let mut find = Select::new(format!(
            "SELECT id, CAST(CASE WHEN {column} IS NULL THEN 1 ELSE 0 END AS BIGINT) \
             FROM {table} WHERE uuid = "
        ));
        find.push_bind(marker);
        let found = find.optional(db).await?;
        let Some(found) = found else {
            return Err(Error::MarkerNotFound {
                what: self.what,
                marker,
            });
        };
        let (id, is_null) = (found.int(0)?.unwrap_or_default(), found.int(1)? == Some(1));
        let beyond = match dir {
            SortDir::Asc => ">",
            SortDir::Desc => "<",
        };
        if column == "id" {
            select.push(format_args!(" AND id {beyond} ")).push_bind(id);
            return Ok(());
        }
        if is_null {
            let later = match dir {
                SortDir::Asc => format!(" OR {column} IS NOT NULL"),
                SortDir::Desc => String::new(),
            };
            select.push(format_args!(" AND (({column} IS NULL AND id {beyond} "));
            select.push_bind(id).push(format_args!("){later})"));
            return Ok(());
        }
        let later = match dir {
            SortDir::Asc => String::new(),
            SortDir::Desc => format!(" OR {column} IS NULL"),
        };
        let value = format!("(SELECT m.{column} FROM {table} m WHERE m.id = ");
        select
            .push(format_args!(" AND ({column} {beyond} {value}"))
            .push_bind(id);
        select
            .push(format_args!(") OR ({column} = {value}"))
            .push_bind(id);
        select
            .push(format_args!(") AND id {beyond} "))
            .push_bind(id);
        select.push(format_args!("){later})"));
        Ok(())
    }
}

/// Appends ` AND column = value` when there is a value.
pub(crate) fn equal<T: Into<Cell>>(select: &mut Select, column: &'static str, value: Option<T>) {
    if let Some(value) = value {
        select
            .push(format_args!(" AND {column} = "))
            .push_bind(value);
    }
}

/// Appends ` AND column IN (…)` unless the list is empty.
pub(crate) fn within(
    select: &mut Select,
    column: &'static str,
    values: impl IntoIterator<Item = String>,
) {
    let mut values = values.into_iter().map(Cell::from).peekable();
    if values.peek().is_none() {
        return;
    }
    select.push(format_args!(" AND {column} IN ("));
    select.push_list(values).push(")");
}

/// Appends the condition that the column contains the text, whatever the case.
pub(crate) fn contains(select: &mut Select, column: &'static str, text: Option<&String>) {
    let Some(text) = text else { return };
    let mut pattern = String::from("%");
    for character in text.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    select.push(format_args!(" AND LOWER({column}) LIKE LOWER("));
    select.push_bind(pattern).push(") ESCAPE '\\'");
}

/// Appends the condition that a row's node is in one of the shards and in one
/// of the conductor groups; an empty list is no condition.
pub(crate) fn of_nodes(select: &mut Select, shards: &[String], groups: &[String]) {
    if shards.is_empty() && groups.is_empty() {
        return;
    }
    select.push(" AND node_uuid IN (SELECT uuid FROM nodes WHERE 1 = 1");
    within(select, "shard", shards.iter().cloned());
    within(select, "conductor_group", groups.iter().cloned());
    select.push(")");
}
