//! Many rows in one value. A driver hands rows over one by one, which for a
//! thousand short ones is most of the work: so the database strings them
//! together, each field with its length before it, and they are taken apart
//! here.

use std::str::FromStr;

use jiff::Timestamp;

use crate::Error;

/// SQL that gives one row's fields as one text.
pub(crate) fn fields(columns: &[&str]) -> String {
    let fields: Vec<String> = columns
        .iter()
        .map(|column| {
            let text = format!("CAST({column} AS TEXT)");
            format!("COALESCE(LENGTH({text}) || ':' || {text}, '-')")
        })
        .collect();
    fields.join(" || ")
}

/// Takes fields one after the other.
pub(crate) struct Packed<'t> {
    rest: &'t str,
    /// Lengths are in characters, which are bytes as long as all are ASCII.
    is_ascii: bool,
    table: &'static str,
    columns: &'static [&'static str],
    next: usize,
}

impl<'t> Packed<'t> {
    /// The text of rows whose fields are these columns.
    pub(crate) fn new(
        text: &'t str,
        table: &'static str,
        columns: &'static [&'static str],
    ) -> Self {
        Self {
            rest: text,
            is_ascii: text.is_ascii(),
            table,
            columns,
            next: 0,
        }
    }

    /// Whether all rows have been taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next field; none for NULL.
    pub(crate) fn maybe_text(&mut self) -> Result<Option<&'t str>, Error> {
        if let Some(rest) = self.rest.strip_prefix('-') {
            self.rest = rest;
            self.next += 1;
            return Ok(None);
        }
        let cut = self.rest.split_once(':').and_then(|(length, rest)| {
            let length: usize = length.parse().ok()?;
            let end = match self.is_ascii {
                true => length,
                false => {
                    let mut ends = rest.char_indices().map(|(at, _)| at);
                    ends.nth(length).unwrap_or(rest.len())
                }
            };
            Some((rest.get(..end)?, rest.get(end..)?))
        });
        let Some((field, rest)) = cut else {
            return Err(self.corrupt("it is not preceded by its length"));
        };
        self.rest = rest;
        self.next += 1;
        Ok(Some(field))
    }

    /// A field that is never NULL.
    pub(crate) fn text(&mut self) -> Result<&'t str, Error> {
        let field = self.maybe_text()?;
        field.ok_or_else(|| self.corrupt_before("it is NULL"))
    }

    /// A value with a textual form.
    pub(crate) fn parse<T>(&mut self) -> Result<T, Error>
    where
        T: FromStr,
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let parsed = self.text()?.parse();
        parsed.map_err(|error: T::Err| self.corrupt_before(error))
    }

    /// The same where NULL may be.
    pub(crate) fn maybe_parse<T>(&mut self) -> Result<Option<T>, Error>
    where
        T: FromStr,
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let parsed = self.maybe_text()?.map(str::parse).transpose();
        parsed.map_err(|error: T::Err| self.corrupt_before(error))
    }

    /// A time, kept in microseconds.
    pub(crate) fn maybe_time(&mut self) -> Result<Option<Timestamp>, Error> {
        let micros: Option<i64> = self.maybe_parse()?;
        let time = micros.map(Timestamp::from_microsecond).transpose();
        time.map_err(|error| self.corrupt_before(error))
    }

    fn corrupt_before(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        self.corrupt_at(self.next.saturating_sub(1), source)
    }

    fn corrupt(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        self.corrupt_at(self.next, source)
    }

    fn corrupt_at(
        &self,
        field: usize,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        let width = self.columns.len().max(1);
        Error::Corrupt {
            table: self.table,
            column: self
                .columns
                .get(field % width)
                .map_or_else(String::new, |name| (*name).to_owned()),
            row: format!("number {} of the list", field / width + 1),
            source: source.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Packed;
    use super::fields;
    use crate::Error;
    use crate::codec::Cell;
    use crate::select::Select;
    use crate::testing;

    const COLUMNS: &[&str] = &["a", "b"];

    #[tokio::test]
    async fn rows_come_back_as_they_are() {
        let rows = [
            (Some("x"), 1_i64),
            (None, -2),
            (Some(""), 3),
            (Some("-:5:é\u{1f680}\n'"), 4),
        ];
        for count in [0, 1, 3, 4] {
            let store = testing::store().await;
            let text: Option<String> = store
                .write(move |db| {
                    Box::pin(async move {
                        db.run("CREATE TABLE t (a TEXT, b BIGINT)").await?;
                        for (a, b) in &rows[..count] {
                            let cells = [Cell::Text(a.map(str::to_owned)), (*b).into()];
                            db.execute("INSERT INTO t VALUES ($1, $2)", cells).await?;
                        }
                        let sql = format!(
                            "SELECT string_agg(line, '') FROM (SELECT {} AS line FROM t ORDER BY b) AS page",
                            fields(COLUMNS)
                        );
                        let found = Select::new(sql).one(db).await?;
                        Ok::<_, Error>(found.text(0)?.map(str::to_owned))
                    })
                })
                .await
                .unwrap();
            let text = text.unwrap_or_default();
            let mut packed = Packed::new(&text, "t", COLUMNS);
            let mut found = Vec::new();
            while !packed.is_empty() {
                found.push((packed.maybe_text().unwrap(), packed.parse().unwrap()));
            }
            let mut expected = rows[..count].to_vec();
            expected.sort_by_key(|(_, b)| *b);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (text, column) in [
            ("", "a"),
            ("x", "a"),
            ("9:abc", "a"),
            ("-", "b"),
            ("--", "b"),
            ("-1:x", "b"),
        ] {
            let mut packed = Packed::new(text, "t", COLUMNS);
            let row = packed.maybe_text().and_then(|_| packed.parse::<i64>());
            let error = row.unwrap_err();
            assert!(
                matches!(&error, Error::Corrupt { column: found, .. } if found == column),
                "{text:?}: {error}"
            );
        }
    }
}
