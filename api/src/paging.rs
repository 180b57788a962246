//! Pages of a list: limit, marker, sorting and the link to the next page.

use uuid::Uuid;
use wrought_store::PageQuery;
use wrought_store::SortDir;

use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::query::Known;
use crate::query::Query;
use crate::query::encode;
use crate::version::since;

/// Entries in one page, at most and when nothing is asked for.
pub(crate) const MAX_LIMIT: u32 = 1000;

/// The arguments that every list takes.
pub(crate) const ARGUMENTS: [Known; 4] = [
    ("limit", 1),
    ("marker", 1),
    ("sort_key", 1),
    ("sort_dir", 1),
];

/// Which page is wanted.
#[derive(Debug)]
pub(crate) struct Paging {
    pub(crate) limit: u32,
    pub(crate) marker: Option<Uuid>,
    pub(crate) sort_key: Option<String>,
    pub(crate) sort_dir: SortDir,
    /// Fields of a brief list: links to its next page name them.
    pub(crate) brief: &'static [&'static str],
}

impl Paging {
    /// Reads the page from the arguments.
    pub(crate) fn read(query: &Query) -> Result<Self> {
        Ok(Self {
            marker: query.uuid("marker")?,
            ..Self::named(query)?
        })
    }

    /// The same for a list whose entries have names instead of UUIDs; its
    /// marker is the caller's to look for.
    pub(crate) fn named(query: &Query) -> Result<Self> {
        let limit = match query.text("limit") {
            None => MAX_LIMIT,
            Some(text) => match text.trim().parse::<i64>() {
                Ok(limit) if limit > 0 => u32::try_from(limit).unwrap_or(MAX_LIMIT).min(MAX_LIMIT),
                _ => {
                    return Err(ApiError::bad_request(format!(
                        "Limit must be positive: {text}"
                    )));
                }
            },
        };
        let sort_dir = match query.text("sort_dir") {
            None | Some("asc") => SortDir::Asc,
            Some("desc") => SortDir::Desc,
            Some(other) => {
                return Err(ApiError::bad_request(format!(
                    "Invalid sort direction: {other}. Acceptable values are 'asc' or 'desc'"
                )));
            }
        };
        let sort_key = query
            .text("sort_key")
            .filter(|key| *key != "id")
            .map(str::to_owned);
        Ok(Self {
            limit,
            marker: None,
            sort_key,
            sort_dir,
            brief: &[],
        })
    }

    /// The same for the store.
    pub(crate) fn page(&self) -> PageQuery {
        PageQuery {
            sort_key: self.sort_key.clone(),
            sort_dir: self.sort_dir,
            marker: self.marker,
            limit: Some(self.limit),
        }
    }

    /// The link to the page after `last`, when this one is full.
    pub(crate) fn next(
        &self,
        context: &Context,
        resource: &str,
        query: &Query,
        count: usize,
        last: Option<&str>,
    ) -> Option<String> {
        let last = last.filter(|_| u32::try_from(count).is_ok_and(|count| count >= self.limit))?;
        let key = self.sort_key.as_deref().unwrap_or("id");
        let dir = match self.sort_dir {
            SortDir::Asc => "asc",
            SortDir::Desc => "desc",
        };
        let mut url = format!(
            "{}/v1/{resource}?sort_key={}&sort_dir={dir}",
            context.base,
            encode(key)
        );
        if !self.brief.is_empty() && context.has(since::FIELDS) {
            url.push_str(&format!("&fields={}", self.brief.join(",")));
        }
        for (name, value) in query.others(&["limit", "marker", "sort_key", "sort_dir"]) {
            url.push_str(&format!("&{name}={}", encode(value)));
        }
        url.push_str(&format!("&limit={}&marker={}", self.limit, encode(last)));
        Some(url)
    }
}
