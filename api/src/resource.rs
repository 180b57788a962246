//! Resources that are rows of one table: one way of reading bodies, patching,
//! showing and listing for all of them. A resource gives its field table and
//! how to read and set each field; the rest is here.

use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::Uri;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;
use axum::response::Response;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_rpc::Record;
use wrought_store::Filter;
use wrought_store::Row;

use crate::ApiState;
use crate::again::Attempts;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::fields;
use crate::fields::Field;
use crate::links;
use crate::paging;
use crate::paging::Paging;
use crate::patch::Patch;
use crate::query::Known;
use crate::query::Query;
use crate::time;
use crate::value::Noun;
use crate::version::since;

/// A resource.
pub(crate) trait Resource: Row + Default {
    /// What it is called in the errors of its fields.
    const NOUN: Noun;
    /// What it is called in sentences.
    const TITLE: &'static str;
    /// Where it is below `/v1`.
    const PATH: &'static str;
    /// The key of its list.
    const PLURAL: &'static str;
    /// Every field that is not a link, with the version that first has it.
    const FIELDS: &'static [Field];
    /// What a brief list shows.
    const BRIEF: &'static [&'static str];
    /// Fields that a client may change.
    const CHANGEABLE: &'static [&'static str];
    /// Fields that a new one must have.
    const REQUIRED: &'static [&'static str];
    /// First version that takes a name for its UUID; none: it has no name.
    const NAMES: Option<u16>;
    /// First version of `?detail=`.
    const DETAIL: u16 = since::DETAIL;

    /// The value of a field as it is, null for one that there is not.
    fn get(&self, field: &str) -> Value;
    /// Sets a field of [`Resource::CHANGEABLE`]. Null takes it back to what it
    /// is without a setting.
    fn set(&mut self, field: &str, value: Value, context: &Context) -> Result<()>;
    /// What must hold for it as a whole.
    fn check(&self, _: &Context) -> Result<()> {
        Ok(())
    }
    /// The value of a field as it is shown.
    fn show(&self, field: &str) -> Value {
        self.get(field)
    }
    /// Links to what is below it.
    fn below(&self, _: &Context) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
}

/// 404 for a resource that is not there.
pub(crate) fn missing<R: Resource>(ident: &str) -> ApiError {
    ApiError::not_found(format!("{} {ident} could not be found.", R::TITLE))
}

/// The one with that UUID or, where and since there are names, that name.
pub(crate) async fn find<R: Resource>(
    state: &ApiState,
    context: &Context,
    ident: &str,
) -> Result<R> {
    let found = match (ident.parse::<Uuid>(), R::NAMES) {
        (Ok(uuid), _) => state.store.row(uuid).await?,
        (Err(_), Some(since)) if context.has(since) => state.store.row_by_ident(ident).await?,
        (Err(_), Some(_)) => None,
        (Err(_), None) => {
            let name = R::NOUN.0;
            return Err(ApiError::bad_request(format!(
                "Expected UUID for {name}_uuid: {ident}"
            )));
        }
    };
    found.ok_or_else(|| missing::<R>(ident))
}

/// One, with the given fields or with all that the version has.
pub(crate) fn shown<R: Resource>(
    one: &R,
    fields: Option<&[&'static str]>,
    context: &Context,
) -> Value {
    let value = |field: &'static str| {
        let value = match field {
            "uuid" => json!(one.uuid()),
            "created_at" => json!(time::text(one.created_at())),
            "updated_at" => time::value(one.updated_at()),
            other => one.show(other),
        };
        (field.to_owned(), value)
    };
    let mut body: Map<String, Value> = match fields {
        Some(fields) => fields.iter().map(|field| value(field)).collect(),
        None => {
            let has = |(_, since): &&Field| context.has(*since);
            let fields = R::FIELDS.iter().filter(has).map(|(field, _)| value(field));
            let below = one.below(context).into_iter();
            fields
                .chain(below.map(|(name, links)| (name.to_owned(), links)))
                .collect()
        }
    };
    let own = format!("{}/{}", R::PATH, one.uuid());
    body.insert("links".to_owned(), links::links(context, &own));
    Value::Object(body)
}

/// Answers with one, cut to `?fields=`.
pub(crate) async fn show<R: Resource>(
    state: &ApiState,
    context: &Context,
    uri: &Uri,
    ident: &str,
) -> Result<Json<Value>> {
    let query = Query::read(uri, context, &[("fields", since::FIELDS)])?;
    let fields = fields::requested(R::FIELDS, &query, context)?;
    let one: R = find(state, context, ident).await?;
    Ok(Json(shown(&one, fields.as_deref(), context)))
}

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
        let path = path.into();
        let mut detail = path.ends_with("/detail");
        let mut known: Vec<Known> = filters.iter().chain(&paging::ARGUMENTS).copied().collect();
        if !detail {
            known.extend([("fields", since::FIELDS), ("detail", R::DETAIL)]);
        }
        let query = Query::read(uri, context, &known)?;
        let paging = Paging::read(&query)?;
        if let Some(key) = &paging.sort_key {
            fields::check_version(R::FIELDS, context, key)?;
        }
        let requested = fields::requested(R::FIELDS, &query, context)?;
        detail |= query.bool("detail")?.unwrap_or(false);
        let fields = match (detail, requested) {
            (true, Some(_)) => {
                return Err(ApiError::bad_request(
                    "Can not specify ?detail=True and fields in the same request.",
                ));
            }
            (true, None) => None,
            (false, requested) => Some(requested.unwrap_or_else(|| R::BRIEF.to_vec())),
        };
        Ok(Self {
            query,
            paging,
            fields,
            path,
        })
    }

    /// The page of what the filter picks; without a filter nothing matches.
    pub(crate) async fn run<F>(
        &self,
        state: &ApiState,
        context: &Context,
        filter: Option<F>,
    ) -> Result<Json<Value>>
    where
        F: Filter,
        F::Row: Resource,
    {
        let rows = match &filter {
            Some(filter) => state.store.rows(filter, &self.paging.page()).await?,
            None => Vec::new(),
        };
        let fields = self.fields.as_deref();
        let list: Vec<Value> = rows.iter().map(|row| shown(row, fields, context)).collect();
        let mut body = Map::new();
        body.insert(F::Row::PLURAL.to_owned(), Value::Array(list));
        let last = rows.last().map(|row| row.uuid().to_string());
        let next = self.paging.next(
            context,
            &self.path,
            &self.query,
            rows.len(),
            last.as_deref(),
        );
        if let Some(next) = next {
            body.insert("next".to_owned(), json!(next));
        }
        Ok(Json(Value::Object(body)))
    }
}

/// Reads the body of a new one.
pub(crate) async fn read_new(request: Request, context: &Context) -> Result<Map<String, Value>> {
    Query::read(request.uri(), context, &[])?;
    let (parts, body) = request.into_parts();
    body::object(&parts.headers, body, body::ORDINARY).await
}

/// A new one from its body: no unknown or too new field, all required ones.
pub(crate) fn parse<R: Resource>(mut given: Map<String, Value>, context: &Context) -> Result<R> {
    let known = |key: &str| key == "uuid" || R::CHANGEABLE.contains(&key);
    if let Some(key) = given.keys().find(|key| !known(key)) {
        return Err(R::NOUN.schema(&format!(
            "Additional properties are not allowed ('{key}' was unexpected)"
        )));
    }
    for key in given.keys() {
        fields::check_version(R::FIELDS, context, key)?;
    }
    if let Some(field) = R::REQUIRED
        .iter()
        .find(|field| !given.contains_key(**field))
    {
        return Err(R::NOUN.schema(&format!("'{field}' is a required property")));
    }
    let mut one = R::default();
    if let Some(uuid) = given.remove("uuid")
        && let Some(uuid) = R::NOUN.uuid("uuid", &uuid)?
    {
        one.set_uuid(uuid);
    }
    for (key, value) in given {
        one.set(&key, value, context)?;
    }
    one.check(context)?;
    Ok(one)
}

/// Answers with a new one.
pub(crate) fn created<R: Resource>(one: &R, context: &Context) -> Response {
    let location = links::location(context, &format!("{}/{}", R::PATH, one.uuid()));
    let shown = shown(one, None, context);
    (StatusCode::CREATED, [(LOCATION, location)], Json(shown)).into_response()
}

/// Makes a new one and answers with it.
pub(crate) async fn create<R>(
    state: &ApiState,
    context: &Context,
    request: Request,
) -> Result<Response>
where
    R: Resource + Into<Record> + TryFrom<Record, Error = Record>,
{
    let given = read_new(request, context).await?;
    let one: R = parse(given, context)?;
    let made = state.conductor.create_record(one.into()).await?;
    Ok(created::<R>(&back(made)?, context))
}

/// What came back is what was given.
fn back<R: TryFrom<Record, Error = Record>>(record: Record) -> Result<R> {
    R::try_from(record).map_err(|other| {
        let error = std::io::Error::other(format!("the conductor gave back a {}", other.kind()));
        ApiError::internal(&error)
    })
}

/// Reads a patch: only fields that may be changed, none that is too new.
pub(crate) async fn read_patch<R: Resource>(request: Request, context: &Context) -> Result<Patch> {
    Query::read(request.uri(), context, &[])?;
    let (parts, body) = request.into_parts();
    let patch = body::json(&parts.headers, body, body::ORDINARY).await?;
    let patch = Patch::read(&patch, context)?;
    for root in patch.roots() {
        if !R::CHANGEABLE.contains(&root) {
            return Err(ApiError::bad_request(format!(
                "Cannot patch /{root}. Only the following can be updated: {}",
                R::CHANGEABLE.join(", ")
            )));
        }
        fields::check_version(R::FIELDS, context, root)?;
    }
    Ok(patch)
}

/// Applies the patch; tells whether anything is different now.
pub(crate) fn apply<R: Resource>(one: &mut R, patch: &Patch, context: &Context) -> Result<bool> {
    let mut document: Map<String, Value> = R::CHANGEABLE
        .iter()
        .map(|field| ((*field).to_owned(), one.get(field)))
        .collect();
    patch.apply(&mut document)?;
    let mut changed = false;
    for root in patch.roots() {
        let before = one.get(root);
        let value = document.remove(root).unwrap_or_default();
        if value.is_null() && R::REQUIRED.contains(&root) {
            return Err(ApiError::bad_request(format!(
                "'{root}' is mandatory and cannot be removed"
            )));
        }
        one.set(root, value, context)?;
        changed |= one.get(root) != before;
    }
    one.check(context)?;
    Ok(changed)
}

/// Changes one and answers with it.
pub(crate) async fn update<R>(
    state: &ApiState,
    context: &Context,
    request: Request,
    ident: &str,
) -> Result<Json<Value>>
where
    R: Resource + Into<Record> + TryFrom<Record, Error = Record>,
{
    let patch = read_patch::<R>(request, context).await?;
    let edit = |one: &mut R| apply(one, &patch, context);
    let one = change(state, context, ident, edit).await?;
    Ok(Json(shown(&one, None, context)))
}

/// Stores what `edit` makes of one, unless it says that nothing is different;
/// again when another request came in between.
pub(crate) async fn change<R>(
    state: &ApiState,
    context: &Context,
    ident: &str,
    edit: impl Fn(&mut R) -> Result<bool>,
) -> Result<R>
where
    R: Resource + Into<Record> + TryFrom<Record, Error = Record>,
{
    let mut attempts = Attempts::default();
    loop {
        let mut one = find(state, context, ident).await?;
        if !edit(&mut one)? {
            return Ok(one);
        }
        match state.conductor.update_record(one.into()).await {
            Err(error) if attempts.again(&error) => {}
            outcome => return back(outcome?),
        }
    }
}

/// Deletes one.
pub(crate) async fn delete<R>(
    state: &ApiState,
    context: &Context,
    uri: &Uri,
    ident: &str,
) -> Result<StatusCode>
where
    R: Resource + Into<Record>,
{
    Query::read(uri, context, &[])?;
    let one: R = find(state, context, ident).await?;
    state.conductor.destroy_record(one.into()).await?;
    Ok(StatusCode::NO_CONTENT)
}
