//! Resources that are rows of one table: one way of serving them all. A
//! resource gives its field table, how to read and set each field, and the
//! filters of its lists; reading bodies, patching, showing, listing and the
//! versions' rules are here.

mod change;
mod list;
mod one;
mod parts;

use axum::routing::get;
use axum::routing::post;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_rpc::Record;
use wrought_store::Row;

pub(crate) use change::change;
pub(crate) use change::parse;
pub(crate) use change::read_new;
pub(crate) use change::store_new;
pub(crate) use list::Listing;
pub(crate) use one::delete;
pub(crate) use one::show;
pub(crate) use parts::mac_address;
pub(crate) use parts::nested;
pub(crate) use parts::node;
pub(crate) use parts::physical_network;

use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::fields;
use crate::fields::Field;
use crate::links;
use crate::query::Query;
use crate::routes::Routes;
use crate::time;
use crate::value::Noun;
use crate::version::since;

/// A resource.
pub(crate) trait Resource:
    Row + Default + Into<Record> + TryFrom<Record, Error = Record>
{
    /// What it is called in the errors of its fields.
    const NOUN: Noun;
    /// What it is called in sentences.
    const TITLE: &'static str;
    /// Where it is below `/v1`.
    const PATH: &'static str;
    /// The key of its list.
    const PLURAL: &'static str;
    /// First version that has it.
    const SINCE: u16;
    /// Whether changes below that version are 405 rather than 404.
    const REFUSES_METHOD: bool = false;
    /// First version that can change one.
    const CHANGES: u16 = Self::SINCE;
    /// First version of `?detail=`.
    const DETAIL: u16 = since::DETAIL;
    /// First version that takes its name for its UUID; none: it has no name.
    const NAMES: Option<u16> = None;
    /// Whether it can be deleted by name.
    const DELETE_BY_NAME: bool = true;
    /// Every field that is not a link, with the version that first has it.
    const FIELDS: &'static [Field];
    /// What a brief list shows; nothing: all, and there is no `?detail=`.
    const BRIEF: &'static [&'static str];
    /// Fields that a client may change.
    const CHANGEABLE: &'static [&'static str];
    /// Fields that can only be given to a new one.
    const GIVEN: &'static [&'static str] = &[];
    /// Fields that a new one must have.
    const REQUIRED: &'static [&'static str];
    /// Fields that a patch cannot remove.
    const KEPT: &'static [&'static str] = Self::REQUIRED;

    /// The value of a field as it is, null for one that there is not.
    fn get(&self, field: &str) -> Value;
    /// Sets a field of [`Resource::CHANGEABLE`] or [`Resource::GIVEN`]. Null takes it back to what it
    /// is without a setting.
    fn set(&mut self, field: &str, value: Value, context: &Context) -> Result<()>;
    /// What must hold for it as a whole, new or changed from `before`; values
    /// that follow from others are set here.
    fn settle(&mut self, _before: Option<&Self>, _: &Context) -> Result<()> {
        Ok(())
    }
    /// Whether a patch may touch a field as things stand, if only to say what
    /// is there already.
    fn may_patch(&self, _field: &str, _: &Context) -> Result<()> {
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
    /// The node that must not be under inspection when it is changed.
    fn inspected_with(&self) -> Option<Uuid> {
        None
    }

    /// Fails for a field that is newer than the request's version.
    fn check_version(context: &Context, field: &str) -> Result<()> {
        fields::check_version(Self::FIELDS, context, field)
    }
    /// Fields to show: those asked for by `?fields=`, else none.
    fn requested(query: &Query, context: &Context) -> Result<Option<Vec<&'static str>>> {
        let check = |field: &str| Self::check_version(context, field);
        fields::requested(Self::FIELDS, query, check)
    }

    /// What is not there below the version that has it.
    fn gate(context: &Context, write: bool) -> Result<()> {
        match write {
            true => Self::gate_since(context, Self::SINCE),
            false => context.endpoint(Self::SINCE),
        }
    }

    /// A change that first came with 1.`since`.
    fn gate_since(context: &Context, since: u16) -> Result<()> {
        match Self::REFUSES_METHOD {
            true => context.writable(since),
            false => context.endpoint(since),
        }
    }
}

/// Routes for making one, and for showing, changing and deleting one.
pub(crate) fn routes<R: Resource>() -> Routes {
    let path = format!("/v1/{}", R::PATH);
    routes_of_one::<R>().route(&path, post(one::create::<R>))
}

/// Routes for showing, changing and deleting one.
pub(crate) fn routes_of_one<R: Resource>() -> Routes {
    let path = format!("/v1/{}/{{ident}}", R::PATH);
    let methods = get(one::show::<R>)
        .patch(one::update::<R>)
        .delete(one::delete::<R>);
    Routes::new().route(&path, methods)
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
        (Err(_), None) => return Err(no_uuid::<R>(ident)),
    };
    found.ok_or_else(|| ApiError::not_found(format!("{} {ident} could not be found.", R::TITLE)))
}

/// 400 for what should have been a UUID.
fn no_uuid<R: Resource>(ident: &str) -> ApiError {
    let name = R::NOUN.0;
    ApiError::bad_request(format!("Expected UUID for {name}_uuid: {ident}"))
}

/// One, with the given fields or with all that the version has.
fn shown<R: Resource>(one: &R, fields: Option<&[&'static str]>, context: &Context) -> Value {
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
            let below = below.map(|(name, links)| (name.to_owned(), links));
            fields.chain(below).collect()
        }
    };
    let own = format!("{}/{}", R::PATH, one.uuid());
    body.insert("links".to_owned(), links::links(context, &own));
    Value::Object(body)
}
