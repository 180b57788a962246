//! The fields of a port with the version that first has each.

use crate::context::Context;
use crate::error::Result;
use crate::fields;
use crate::fields::Field;
use crate::query::Query;
use crate::version::since;

/// Name and first version (the N of 1.N) of every field that is not a link.
pub(crate) const FIELDS: &[Field] = &[
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

/// As [`fields::check_version`].
pub(crate) fn check_version(context: &Context, name: &str) -> Result<()> {
    fields::check_version(FIELDS, context, name)
}

/// As [`fields::requested`].
pub(crate) fn requested(query: &Query, context: &Context) -> Result<Option<Vec<&'static str>>> {
    fields::requested(FIELDS, query, context)
}
