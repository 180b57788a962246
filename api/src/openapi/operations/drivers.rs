//! Drivers, conductors and shards.

use super::super::operation::Operation;
use super::super::operation::get;
use super::super::schema::Schema::Closed;
use super::super::schema::Schema::Int;
use super::super::schema::Schema::List;
use super::super::schema::Schema::MapOf;
use super::super::schema::Schema::Nullable;
use super::super::schema::Schema::Ref;
use super::super::schema::Schema::Text;
use super::PAGE;
use crate::version::since;
use crate::version::since::CONDUCTORS;
use crate::version::since::DRIVER_FIELDS;
use crate::version::since::DYNAMIC_DRIVERS;

pub(super) const OPERATIONS: &[Operation] = &[
    get(
        "/v1/drivers",
        1,
        "Lists hardware types.",
        Closed {
            members: &[("drivers", List(&Ref("Driver")))],
            required: &["drivers"],
        },
    )
    .query(&[&[
        ("type", DYNAMIC_DRIVERS),
        ("detail", DYNAMIC_DRIVERS),
        ("fields", DRIVER_FIELDS),
    ]]),
    get(
        "/v1/drivers/{name}",
        1,
        "Shows a hardware type.",
        Ref("Driver"),
    )
    .query(&[&[("fields", DRIVER_FIELDS)]]),
    get(
        "/v1/drivers/{name}/properties",
        1,
        "Describes what driver_info of a hardware type may have.",
        MapOf(&Text),
    ),
    get(
        "/v1/conductors",
        CONDUCTORS,
        "Lists conductors.",
        Closed {
            members: &[("conductors", List(&Ref("Conductor"))), ("next", Text)],
            required: &["conductors"],
        },
    )
    .query(&[PAGE, &[("detail", CONDUCTORS), ("fields", CONDUCTORS)]]),
    get(
        "/v1/conductors/{hostname}",
        CONDUCTORS,
        "Shows a conductor.",
        Ref("Conductor"),
    )
    .query(&[&[("fields", CONDUCTORS)]]),
    get(
        "/v1/shards",
        since::SHARDS,
        "Lists the shards with the number of their nodes.",
        Closed {
            members: &[(
                "shards",
                List(&Closed {
                    members: &[("name", Nullable(&Text)), ("count", Int)],
                    required: &["name", "count"],
                }),
            )],
            required: &["shards"],
        },
    ),
];
