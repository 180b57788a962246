//! Resources that are rows of one table, and what is beside their own paths.

use wrought_store::Allocation;
use wrought_store::Chassis;
use wrought_store::DeployTemplate;
use wrought_store::InspectionRule;
use wrought_store::Port;
use wrought_store::Portgroup;
use wrought_store::Runbook;
use wrought_store::VolumeConnector;
use wrought_store::VolumeTarget;

use super::super::operation::Operation;
use super::super::operation::delete;
use super::super::operation::get;
use super::super::operation::patch;
use super::super::operation::post;
use super::super::operation::put;
use super::super::schema::Schema::Closed;
use super::super::schema::Schema::Ref;
use super::CHOICE;
use super::FIELDS;
use super::PAGE;
use super::nodes::TRAITS;
use crate::allocations;
use crate::inspection_rules;
use crate::nodes;
use crate::portgroups;
use crate::ports;
use crate::query::Known;
use crate::resource::Resource;
use crate::version::since::ALLOCATIONS;
use crate::version::since::INSPECTION_RULES;
use crate::version::since::NESTED_PORTGROUPS;
use crate::version::since::PORTGROUPS;
use crate::version::since::VOLUME;
use crate::volume;

/// The five operations of a resource, by the names of its shapes.
macro_rules! operations {
    ($resource:ty, $name:literal, $filters:expr) => {
        five::<$resource>(
            [$name, concat!($name, "New"), concat!($name, "List")],
            $filters,
        )
    };
}

/// Those of all such resources.
pub(super) fn all() -> impl Iterator<Item = Operation> {
    [
        operations!(
            Allocation,
            "Allocation",
            &[allocations::FILTERS, PAGE, FIELDS]
        ),
        operations!(Chassis, "Chassis", &[PAGE, CHOICE]),
        operations!(DeployTemplate, "DeployTemplate", &[PAGE, CHOICE]),
        operations!(
            InspectionRule,
            "InspectionRule",
            &[inspection_rules::FILTERS, PAGE, CHOICE]
        ),
        operations!(Port, "Port", &[ports::FILTERS, PAGE, CHOICE]),
        operations!(Portgroup, "Portgroup", &[portgroups::FILTERS, PAGE, CHOICE]),
        operations!(Runbook, "Runbook", &[PAGE, CHOICE]),
        operations!(
            VolumeConnector,
            "VolumeConnector",
            &[volume::FILTERS, PAGE, CHOICE]
        ),
        operations!(
            VolumeTarget,
            "VolumeTarget",
            &[volume::FILTERS, PAGE, CHOICE]
        ),
    ]
    .into_iter()
    .flatten()
}

fn five<R: Resource>(
    [one, new, list]: [&'static str; 3],
    arguments: &'static [&'static [Known]],
) -> [Operation; 5] {
    let all = format!("/v1/{}", R::PATH);
    let single = format!("{all}/{{ident}}");
    let since = R::SINCE;
    [
        get("", since, "Lists them.", Ref(list))
            .query(arguments)
            .at(all.clone()),
        post("", since, "Makes one.", Ref(new), Ref(one)).at(all),
        get("", since, "Shows one.", Ref(one))
            .query(&[FIELDS])
            .at(single.clone()),
        patch("", R::CHANGES, "Changes one.", Ref(one)).at(single.clone()),
        delete("", since, "Deletes one.").at(single),
    ]
}

/// What is beside them.
pub(super) const OPERATIONS: &[Operation] = &[
    get(
        "/v1/ports/detail",
        1,
        "Lists ports with all fields.",
        Ref("PortList"),
    )
    .query(&[ports::FILTERS, PAGE]),
    get(
        "/v1/nodes/{ident}/ports",
        1,
        "Lists the ports of a node.",
        Ref("PortList"),
    )
    .query(&[PAGE, CHOICE]),
    get(
        "/v1/nodes/{ident}/ports/detail",
        1,
        "Lists the ports of a node with all fields.",
        Ref("PortList"),
    )
    .query(&[PAGE]),
    get(
        "/v1/portgroups/detail",
        PORTGROUPS,
        "Lists portgroups with all fields.",
        Ref("PortgroupList"),
    )
    .query(&[portgroups::FILTERS, PAGE]),
    get(
        "/v1/nodes/{ident}/portgroups",
        NESTED_PORTGROUPS,
        "Lists the portgroups of a node.",
        Ref("PortgroupList"),
    )
    .query(&[PAGE, CHOICE]),
    get(
        "/v1/nodes/{ident}/portgroups/detail",
        NESTED_PORTGROUPS,
        "Lists the portgroups of a node with all fields.",
        Ref("PortgroupList"),
    )
    .query(&[PAGE]),
    get(
        "/v1/portgroups/{ident}/ports",
        NESTED_PORTGROUPS,
        "Lists the ports of a portgroup.",
        Ref("PortList"),
    )
    .query(&[PAGE, CHOICE]),
    get(
        "/v1/portgroups/{ident}/ports/detail",
        NESTED_PORTGROUPS,
        "Lists the ports of a portgroup with all fields.",
        Ref("PortList"),
    )
    .query(&[PAGE]),
    get(
        "/v1/chassis/detail",
        1,
        "Lists chassis with all fields.",
        Ref("ChassisList"),
    )
    .query(&[PAGE]),
    get(
        "/v1/chassis/{ident}/nodes",
        1,
        "Lists the nodes of a chassis.",
        Ref("NodeList"),
    )
    .query(&[nodes::FILTERS, PAGE, CHOICE]),
    get(
        "/v1/chassis/{ident}/nodes/detail",
        1,
        "Lists the nodes of a chassis with all fields.",
        Ref("NodeList"),
    )
    .query(&[nodes::FILTERS, PAGE]),
    get(
        "/v1/runbooks/{ident}/traits",
        112,
        "Lists the traits of a runbook.",
        TRAITS,
    ),
    put(
        "/v1/runbooks/{ident}/traits",
        112,
        "Replaces the traits of a runbook.",
    )
    .takes(TRAITS),
    delete(
        "/v1/runbooks/{ident}/traits",
        112,
        "Removes all traits of a runbook.",
    ),
    put(
        "/v1/runbooks/{ident}/traits/{trait}",
        112,
        "Adds a trait to a runbook.",
    ),
    delete(
        "/v1/runbooks/{ident}/traits/{trait}",
        112,
        "Removes a trait from a runbook.",
    ),
    get(
        "/v1/nodes/{ident}/allocation",
        ALLOCATIONS,
        "Shows the allocation that has a node.",
        Ref("Allocation"),
    )
    .query(&[FIELDS]),
    delete(
        "/v1/nodes/{ident}/allocation",
        ALLOCATIONS,
        "Deletes the allocation that has a node.",
    ),
    delete(
        "/v1/inspection_rules",
        INSPECTION_RULES,
        "Deletes all inspection rules.",
    ),
    get("/v1/volume", VOLUME, "Names the two kinds.", VOLUMES),
    get(
        "/v1/nodes/{ident}/volume",
        VOLUME,
        "Names the two kinds.",
        VOLUMES,
    ),
    get(
        "/v1/nodes/{ident}/volume/connectors",
        VOLUME,
        "Lists the volume connectors of a node.",
        Ref("VolumeConnectorList"),
    )
    .query(&[PAGE, CHOICE]),
    get(
        "/v1/nodes/{ident}/volume/targets",
        VOLUME,
        "Lists the volume targets of a node.",
        Ref("VolumeTargetList"),
    )
    .query(&[PAGE, CHOICE]),
];

const VOLUMES: super::super::schema::Schema = Closed {
    members: &[
        ("links", Ref("Links")),
        ("connectors", Ref("Links")),
        ("targets", Ref("Links")),
    ],
    required: &["links", "connectors", "targets"],
};
