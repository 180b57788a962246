//! The fields of a port with the version that first has each.

use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::query::Query;
use crate::version::since;

/// Name and first version (the N of 1.N) of every field that is not a link.
pub(crate) const FIELDS: &[(&str, u16)] = &[
    ("uuid", 1),
    ("created_at", 1),
    ("updated_at", 1),
    ("address", 1),
    ("extra", 1),
    ("internal_info", 18),
    ("is_smartnic", 53),
    ("local_link_connection", 19),
    ("physical_network", 34),
    ("pxe_enabled", 19),
    ("node_uuid", 1),
    ("name", since::PORT_NAMES),
    ("description", 97),
    ("vendor", 100),
    ("category", 101),
    ("available_for_dynamic_portgroup", 111),
    ("portgroup_uuid", 24),
];

/// What a brief list shows.
pub(crate) const BRIEF: &[&str] = &["uuid", "address"];

/// Fields that a client may change.
pub(crate) const CHANGEABLE: &[&str] = &[
    "address",
    "available_for_dynamic_portgroup",
    "category",
    "description",
    "extra",
    "is_smartnic",
    "local_link_connection",
    "name",
    "node_uuid",
    "physical_network",
    "portgroup_uuid",
    "pxe_enabled",
    "vendor",
];

/// The table's own name of a field and its first version.
pub(crate) fn find(name: &str) -> Option<(&'static str, u16)> {
    FIELDS.iter().copied().find(|(field, _)| *field == name)
}

/// 406 when a field is newer than the request's version.
pub(crate) fn check_version(context: &Context, name: &str) -> Result<()> {
    match find(name) {
        Some((name, since)) => context.needs(&format!("The field {name}"), since),
        None => Ok(()),
    }
}

/// Fields to show: those asked for by `?fields=`, else none.
pub(crate) fn requested(query: &Query, context: &Context) -> Result<Option<Vec<&'static str>>> {
    let Some(names) = query.list("fields") else {
        return Ok(None);
    };
    let mut fields = Vec::new();
    for name in &names {
        let (field, _) = find(name)
            .ok_or_else(|| ApiError::bad_request(format!("Field {name} is not a valid field.")))?;
        check_version(context, field)?;
        fields.push(field);
    }
    Ok(Some(fields))
}
