//! Between Rust values and the three kinds of column: TEXT, TEXT that holds
//! JSON, BIGINT (numbers, booleans as 0 and 1, times in microseconds).

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::Error;
use crate::Result;
use crate::db::DbRow;

/// The time, as fine as it is stored.
pub(crate) fn now() -> Timestamp {
    micros(Timestamp::now())
}

/// Cuts a time to what is stored.
pub(crate) fn micros(time: Timestamp) -> Timestamp {
    // A time within range stays within range when it is cut.
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

/// A value on its way into a column.
#[derive(Debug, Clone)]
pub enum Cell {
    /// TEXT.
    Text(Option<String>),
    /// BIGINT.
    Int(Option<i64>),
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(Some(text.into()))
    }

    pub(crate) fn maybe(text: Option<&String>) -> Self {
        Self::Text(text.cloned())
    }

    pub(crate) fn shown<T: ToString>(value: Option<T>) -> Self {
        Self::Text(value.map(|value| value.to_string()))
    }

    pub(crate) fn int(number: i64) -> Self {
        Self::Int(Some(number))
    }

    pub(crate) fn bool(value: bool) -> Self {
        Self::int(i64::from(value))
    }

    pub(crate) fn maybe_bool(value: Option<bool>) -> Self {
        Self::Int(value.map(i64::from))
    }

    pub(crate) fn time(time: Option<Timestamp>) -> Self {
        Self::Int(time.map(Timestamp::as_microsecond))
    }

    /// Microseconds.
    pub(crate) fn duration(duration: Option<Duration>) -> Self {
        let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self::Int(duration.map(micros))
    }

    /// A value that is always an object or a list, so that it cannot fail to
    /// become JSON.
    pub(crate) fn json<T: Serialize>(value: &T) -> Self {
        Self::Text(serde_json::to_string(value).ok())
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(Some(text)) => f.write_str(text),
            Self::Int(Some(number)) => number.fmt(f),
            Self::Text(None) | Self::Int(None) => Ok(()),
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(Some(text))
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::int(number)
    }
}

impl From<Uuid> for Cell {
    fn from(uuid: Uuid) -> Self {
        Self::Text(Some(uuid.to_string()))
    }
}

impl From<Timestamp> for Cell {
    fn from(time: Timestamp) -> Self {
        Self::int(time.as_microsecond())
    }
}

/// `$1, $2, … $n`.
pub(crate) fn placeholders(count: usize) -> String {
    (1..=count)
        .map(|n| format!("${n}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Takes the columns of a row one after the other.
pub(crate) struct Columns<'r> {
    row: &'r DbRow,
    table: &'static str,
    names: &'static [&'static str],
    next: usize,
    /// Names the row in errors.
    key: String,
}

impl<'r> Columns<'r> {
    /// `names` are the columns in the order of the SELECT.
    pub(crate) fn new(row: &'r DbRow, table: &'static str, names: &'static [&'static str]) -> Self {
        Self {
            row,
            table,
            names,
            next: 0,
            key: String::new(),
        }
    }

    fn str(&mut self) -> Result<Option<&'r str>> {
        let index = self.next;
        self.next += 1;
        let text = self.row.text(index);
        text.map_err(|error| self.corrupt(index, error))
    }

    fn maybe_int(&mut self) -> Result<Option<i64>> {
        let index = self.next;
        self.next += 1;
        let number = self.row.int(index);
        number.map_err(|error| self.corrupt(index, error))
    }

    /// What must not be NULL.
    fn there<T>(&self, index: usize, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.corrupt(index, "it is NULL"))
    }

    fn corrupt(
        &self,
        index: usize,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error::Corrupt {
            table: self.table,
            column: self
                .names
                .get(index)
                .map_or_else(|| index.to_string(), |n| (*n).to_owned()),
            row: self.key.clone(),
            source: source.into(),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        let index = self.next;
        let text = self.str()?;
        self.there(index, text).map(str::to_owned)
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<String>> {
        Ok(self.str()?.map(str::to_owned))
    }

    pub(crate) fn int(&mut self) -> Result<i64> {
        let index = self.next;
        let number = self.maybe_int()?;
        self.there(index, number)
    }

    /// Microseconds.
    pub(crate) fn maybe_duration(&mut self) -> Result<Option<Duration>> {
        let micros = self.maybe_int()?;
        Ok(micros.map(|micros| Duration::from_micros(micros.unsigned_abs())))
    }

    /// A number of 32 bits.
    pub(crate) fn small(&mut self) -> Result<u32> {
        let index = self.next;
        u32::try_from(self.int()?).map_err(|error| self.corrupt(index, error))
    }

    pub(crate) fn bool(&mut self) -> Result<bool> {
        Ok(self.int()? != 0)
    }

    pub(crate) fn maybe_bool(&mut self) -> Result<Option<bool>> {
        Ok(self.maybe_int()?.map(|number| number != 0))
    }

    pub(crate) fn maybe_time(&mut self) -> Result<Option<Timestamp>> {
        let index = self.next;
        self.maybe_int()?
            .map(Timestamp::from_microsecond)
            .transpose()
            .map_err(|error| self.corrupt(index, error))
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp> {
        let index = self.next;
        let number = self.int()?;
        Timestamp::from_microsecond(number).map_err(|error| self.corrupt(index, error))
    }

    /// A value with a textual form.
    pub(crate) fn parse<T>(&mut self) -> Result<T>
    where
        T: FromStr,
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let index = self.next;
        let text = self.str()?;
        self.there(index, text)?
            .parse()
            .map_err(|error: T::Err| self.corrupt(index, error))
    }

    pub(crate) fn maybe_parse<T>(&mut self) -> Result<Option<T>>
    where
        T: FromStr,
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let index = self.next;
        self.str()?
            .map(str::parse)
            .transpose()
            .map_err(|error: T::Err| self.corrupt(index, error))
    }

    /// The row's UUID, which names it in errors from here on.
    pub(crate) fn key(&mut self) -> Result<Uuid> {
        let uuid: Uuid = self.parse()?;
        self.key = uuid.to_string();
        Ok(uuid)
    }

    pub(crate) fn json<T: DeserializeOwned>(&mut self) -> Result<T> {
        let index = self.next;
        let text = self.str()?;
        serde_json::from_str(self.there(index, text)?).map_err(|error| self.corrupt(index, error))
    }
}
