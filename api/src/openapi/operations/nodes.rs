//! Nodes and what is below one.

use super::super::operation::Operation;
use super::super::operation::delete;
use super::super::operation::get;
use super::super::operation::patch;
use super::super::operation::post;
use super::super::operation::put;
use super::super::schema::Schema;
use super::super::schema::Schema::AtLeast;
use super::super::schema::Schema::Bool;
use super::super::schema::Schema::Closed;
use super::super::schema::Schema::Either;
use super::super::schema::Schema::List;
use super::super::schema::Schema::MapOf;
use super::super::schema::Schema::Nullable;
use super::super::schema::Schema::Object;
use super::super::schema::Schema::OneOf;
use super::super::schema::Schema::Ref;
use super::super::schema::Schema::Short;
use super::super::schema::Schema::Text;
use super::super::schema::Schema::Uuid;
use super::CHOICE;
use super::FIELDS;
use super::PAGE;
use crate::nodes::FILTERS;
use crate::version::since;

pub(super) const OPERATIONS: &[Operation] = &[
    get("/v1/nodes", 1, "Lists nodes.", Ref("NodeList")).query(&[FILTERS, PAGE, CHOICE]),
    get(
        "/v1/nodes/detail",
        1,
        "Lists nodes with all fields.",
        Ref("NodeList"),
    )
    .query(&[FILTERS, PAGE]),
    post(
        "/v1/nodes",
        1,
        "Enrols a node.",
        Ref("NodeNew"),
        Ref("Node"),
    ),
    get("/v1/nodes/{ident}", 1, "Shows a node.", Ref("Node")).query(&[FIELDS]),
    patch("/v1/nodes/{ident}", 1, "Changes a node.", Ref("Node"))
        .query(&[&[("reset_interfaces", since::RESET_INTERFACES)]]),
    delete("/v1/nodes/{ident}", 1, "Deletes a node."),
    get(
        "/v1/nodes/{ident}/validate",
        1,
        "Checks each interface of a node.",
        VALIDATION,
    ),
    get("/v1/nodes/validate", 1, "The same.", VALIDATION)
        .query(&[&[("node", 1), ("node_uuid", 1)]]),
    get(
        "/v1/nodes/{ident}/children",
        since::CHILDREN,
        "Lists the nodes that are parts of a node.",
        Closed {
            members: &[
                ("children", List(&Uuid)),
                (
                    "links",
                    Closed {
                        members: &[("href", Text), ("rel", Text)],
                        required: &["href", "rel"],
                    },
                ),
            ],
            required: &["children", "links"],
        },
    ),
    get(
        "/v1/nodes/{ident}/inventory",
        since::INVENTORY,
        "Shows what the last inspection found.",
        Ref("Inventory"),
    ),
    get(
        "/v1/nodes/{ident}/states",
        1,
        "Shows the states of a node.",
        Ref("States"),
    ),
    put(
        "/v1/nodes/{ident}/states/power",
        1,
        "Changes the power state.",
    )
    .takes(Closed {
        members: &[
            (
                "target",
                OneOf(&[
                    "power on",
                    "power off",
                    "rebooting",
                    "soft power off",
                    "soft rebooting",
                ]),
            ),
            ("timeout", Nullable(&AtLeast(1))),
        ],
        required: &["target"],
    })
    .accepted(),
    put(
        "/v1/nodes/{ident}/states/provision",
        1,
        "Starts a provisioning operation.",
    )
    .takes(PROVISION)
    .accepted(),
    put(
        "/v1/nodes/{ident}/maintenance",
        1,
        "Puts a node into maintenance.",
    )
    .takes(Closed {
        members: &[("reason", Nullable(&Text))],
        required: &[],
    })
    .accepted(),
    delete(
        "/v1/nodes/{ident}/maintenance",
        1,
        "Takes a node out of maintenance.",
    )
    .accepted(),
    get(
        "/v1/nodes/{ident}/management/boot_device",
        1,
        "Reads the boot device.",
        Closed {
            members: &[
                ("boot_device", Nullable(&Text)),
                ("persistent", Nullable(&Bool)),
            ],
            required: &["boot_device", "persistent"],
        },
    ),
    put(
        "/v1/nodes/{ident}/management/boot_device",
        1,
        "Sets the boot device.",
    )
    .takes(Closed {
        members: &[("boot_device", Text), ("persistent", Nullable(&Bool))],
        required: &["boot_device"],
    }),
    get(
        "/v1/nodes/{ident}/management/boot_device/supported",
        1,
        "Lists the boot devices that can be set.",
        Closed {
            members: &[("supported_boot_devices", List(&Text))],
            required: &["supported_boot_devices"],
        },
    ),
    get(
        "/v1/nodes/{ident}/traits",
        since::TRAITS,
        "Lists the traits of a node.",
        TRAITS,
    ),
    put(
        "/v1/nodes/{ident}/traits",
        since::TRAITS,
        "Replaces the traits of a node.",
    )
    .takes(TRAITS),
    delete(
        "/v1/nodes/{ident}/traits",
        since::TRAITS,
        "Removes all traits of a node.",
    ),
    put(
        "/v1/nodes/{ident}/traits/{trait}",
        since::TRAITS,
        "Adds a trait to a node.",
    ),
    delete(
        "/v1/nodes/{ident}/traits/{trait}",
        since::TRAITS,
        "Removes a trait from a node.",
    ),
    get(
        "/v1/nodes/{ident}/history",
        since::HISTORY,
        "Lists the events of a node.",
        Ref("HistoryList"),
    )
    .query(&[PAGE, &[("detail", since::HISTORY)]]),
    get(
        "/v1/nodes/{ident}/history/{entry}",
        since::HISTORY,
        "Shows an event.",
        Ref("History"),
    ),
];

/// An interface's fitness.
const VALIDATION: Schema = MapOf(&Closed {
    members: &[("result", Nullable(&Bool)), ("reason", Text)],
    required: &["result"],
});

pub(super) const TRAITS: Schema = Closed {
    members: &[("traits", List(&Short(255)))],
    required: &["traits"],
};

/// A step as a request has it.
const STEPS: Schema = List(&Closed {
    members: &[
        ("interface", Text),
        ("step", Text),
        ("args", Object),
        ("priority", AtLeast(0)),
        ("order", AtLeast(0)),
        ("execute_on_child_nodes", Bool),
        ("limit_child_node_execution", List(&Text)),
    ],
    required: &["interface", "step"],
});

const PROVISION: Schema = Closed {
    members: &[
        ("target", Text),
        (
            "configdrive",
            Either(&[
                Nullable(&Text),
                Closed {
                    members: &[
                        ("meta_data", Object),
                        ("network_data", Object),
                        ("user_data", Either(&[Text, Object])),
                        ("vendor_data", Object),
                    ],
                    required: &[],
                },
            ]),
        ),
        ("clean_steps", Nullable(&STEPS)),
        ("deploy_steps", Nullable(&STEPS)),
        ("service_steps", Nullable(&STEPS)),
        ("rescue_password", Nullable(&Text)),
        ("disable_ramdisk", Nullable(&Bool)),
        ("runbook", Nullable(&Text)),
    ],
    required: &["target"],
};
