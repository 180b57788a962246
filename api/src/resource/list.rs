//! Lists of resources.

use axum::Json;
use axum::http::Uri;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_store::Filter;
use wrought_store::Row;

use super::Resource;
use super::shown;
use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::paging;
use crate::paging::Paging;
use crate::query::Known;
use crate::query::Query;
use crate::version::since;

/// What a list is asked for.
pub(crate) struct Listing {
    /// The arguments.
    pub(crate) query: Query,
    paging: Paging,
    fields: Option<Vec<&'static str>>,
    path: String,
}

impl Listing {
    /// Reads the arguments: `filters`, pages, and, unless `path` ends in
    /// `detail`, the choice of fields. `path` is where the list is below `/v1`.
    pub(crate) fn read<R: Resource>(
        uri: &Uri,
        context: &Context,
        filters: &[Known],
        path: impl Into<String>,
    ) -> Result<Self> {
        R::gate(context, false)?;
        let path = path.into();
        let mut detail = path.ends_with("/detail");
        let mut known: Vec<Known> = filters.iter().chain(&paging::ARGUMENTS).copied().collect();
        if !detail {
            known.push(("fields", since::FIELDS));
        }
        // Before there was one, it is an argument like any unknown one.
        if !detail && !R::BRIEF.is_empty() && context.has(R::DETAIL) {
            known.push(("detail", R::DETAIL));
        }
        let query = Query::read(uri, context, &known)?;
        let mut paging = Paging::read(&query)?;
        if let Some(key) = &paging.sort_key {
            R::check_version(context, key)?;
        }
        let requested = R::requested(&query, context)?;
        detail |= query.bool("detail")?.unwrap_or(false);
        let fields = match (detail, requested) {
            (true, Some(_)) => {
                return Err(ApiError::bad_request(
                    "Can not specify ?detail=True and fields in the same request.",
                ));
            }
            (true, None) => None,
            (false, None) if R::BRIEF.is_empty() => None,
            (false, Some(requested)) => Some(requested),
            (false, None) => {
                paging.brief = R::BRIEF;
                Some(R::BRIEF.to_vec())
            }
        };
        Ok(Self {
            query,
            paging,
            fields,
            path,
        })
    }

    /// The page of what the filter picks.
    pub(crate) async fn run<F>(
        &self,
        state: &ApiState,
        context: &Context,
        filter: F,
    ) -> Result<Json<Value>>
    where
        F: Filter,
        F::Row: Resource,
    {
        let rows = state.store.rows(&filter, &self.paging.page()).await?;
        let fields = self.fields.as_deref();
        let list: Vec<Value> = rows.iter().map(|row| shown(row, fields, context)).collect();
        let mut body = Map::new();
        body.insert(F::Row::PLURAL.to_owned(), Value::Array(list));
        let last = rows.last().map(|row| row.uuid().to_string());
        let (path, count) = (&self.path, rows.len());
        let next = self
            .paging
            .next(context, path, &self.query, count, last.as_deref());
        if let Some(next) = next {
            body.insert("next".to_owned(), json!(next));
        }
        Ok(Json(Value::Object(body)))
    }
}
