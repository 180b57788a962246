//! Shapes that the document names: resources from their field tables, and what
//! several operations share.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_store::Allocation;
use wrought_store::Chassis;
use wrought_store::DeployTemplate;
use wrought_store::InspectionRule;
use wrought_store::Port;
use wrought_store::Portgroup;
use wrought_store::Runbook;
use wrought_store::VolumeConnector;
use wrought_store::VolumeTarget;
use wrought_store::node::INTERFACE_KINDS;

use super::kinds;
use super::schema::Member;
use super::schema::Schema;
use super::schema::Schema::Any;
use super::schema::Schema::Closed;
use super::schema::Schema::Int;
use super::schema::Schema::List;
use super::schema::Schema::Nullable;
use super::schema::Schema::Object;
use super::schema::Schema::OneOf;
use super::schema::Schema::Ref;
use super::schema::Schema::Text;
use super::schema::closed;
use crate::fields::Field;
use crate::nodes;
use crate::resource::Resource;

/// Links to one thing and, in lists, to what is below it.
const LINKS: Schema = Ref("Links");

/// Everything that has a name in the document.
pub(super) fn schemas() -> Value {
    let mut all: Map<String, Value> = SHARED
        .iter()
        .map(|(name, shape)| ((*name).to_owned(), shape.json()))
        .collect();
    let mut add = |name: &str, shown: Value, new: Option<Value>, plural: &str| {
        let reference = json!({"$ref": format!("#/components/schemas/{name}")});
        let list = json!({"type": "array", "items": reference});
        let members = [(plural, list), ("next", Text.json())];
        all.insert(format!("{name}List"), closed(members, &[plural]));
        all.insert(name.to_owned(), shown);
        if let Some(new) = new {
            all.insert(format!("{name}New"), new);
        }
    };
    let below: Vec<Member> = nodes::SUBRESOURCES
        .iter()
        .map(|(name, _)| (*name, LINKS))
        .collect();
    let node = shown(nodes::FIELDS, &below);
    let new = new(nodes::FIELDS, nodes::CHANGEABLE, &[], &["driver"]);
    add("Node", node, Some(new), "nodes");
    let ident = [("node_ident", Text)];
    resource::<Port>(&mut add, "Port", &[], &ident);
    resource::<Allocation>(&mut add, "Allocation", &[], &[("node", Nullable(&Text))]);
    resource::<InspectionRule>(&mut add, "InspectionRule", &[], &[]);
    resource::<Chassis>(&mut add, "Chassis", &[("nodes", List(&LINKS))], &[]);
    resource::<DeployTemplate>(&mut add, "DeployTemplate", &[], &[]);
    resource::<Portgroup>(&mut add, "Portgroup", &[("ports", LINKS)], &[]);
    resource::<Runbook>(&mut add, "Runbook", &[], &[]);
    resource::<VolumeConnector>(&mut add, "VolumeConnector", &[], &[]);
    resource::<VolumeTarget>(&mut add, "VolumeTarget", &[], &[]);
    all.insert("Driver".to_owned(), driver());
    Value::Object(all)
}

/// A hardware type: what it is, and the interfaces of each kind.
fn driver() -> Value {
    let own = [
        ("name", Text),
        ("hosts", List(&Text)),
        ("links", LINKS),
        ("properties", LINKS),
        ("type", Text),
    ];
    let mut members: Vec<(String, Value)> = own
        .iter()
        .map(|(name, shape)| ((*name).to_owned(), shape.json()))
        .collect();
    for kind in INTERFACE_KINDS {
        members.push((format!("default_{kind}_interface"), Nullable(&Text).json()));
        members.push((format!("enabled_{kind}_interfaces"), List(&Text).json()));
    }
    let members = members
        .iter()
        .map(|(name, shape)| (name.as_str(), shape.clone()));
    closed(members, &[])
}

/// A resource that is made and shown by its field table.
fn resource<R: Resource>(
    add: &mut impl FnMut(&str, Value, Option<Value>, &str),
    name: &str,
    below: &[Member],
    more: &[Member],
) {
    let shown = shown(R::FIELDS, below);
    let given = [R::CHANGEABLE, R::GIVEN].concat();
    let new = new(R::FIELDS, &given, more, R::REQUIRED);
    add(name, shown, Some(new), R::PLURAL);
}

/// What is shown: each field with its first version; which of them are there
/// depends on the version and on `?fields=`.
fn shown(fields: &[Field], below: &[Member]) -> Value {
    let fields = fields.iter().map(|(name, since)| {
        let mut shape = kinds::field(name).unwrap_or(Any).json();
        shape["x-min-version"] = json!(format!("1.{since}"));
        (*name, shape)
    });
    let links = [("links", LINKS)];
    let below = links.iter().chain(below);
    let below = below.map(|(name, shape)| (*name, shape.json()));
    closed(fields.chain(below), &["links"])
}

/// What a new one may be given.
fn new(fields: &[Field], changeable: &[&str], more: &[Member], required: &[&str]) -> Value {
    let given = |(name, since): &Field| {
        let kind = kinds::field(name).unwrap_or(Any).json();
        // Null stands for what there is without a setting.
        let mut shape = match required.contains(name) {
            true => kind,
            false => json!({"anyOf": [kind, {"type": "null"}]}),
        };
        shape["x-min-version"] = json!(format!("1.{since}"));
        (*name, shape)
    };
    let may = |(name, _): &&Field| *name == "uuid" || changeable.contains(name);
    let more = more.iter().map(|(name, shape)| (*name, shape.json()));
    closed(fields.iter().filter(may).map(given).chain(more), required)
}

/// An event of a node's history.
const HISTORY: Schema = Closed {
    members: &[
        ("conductor", Nullable(&Text)),
        ("created_at", Schema::Time),
        ("duration_seconds", Nullable(&Schema::Number)),
        ("event", Text),
        ("event_type", Nullable(&Text)),
        ("links", LINKS),
        ("project", Nullable(&Text)),
        ("severity", Nullable(&Text)),
        ("state", Nullable(&Text)),
        ("target_provision_state", Nullable(&Text)),
        ("user", Nullable(&Text)),
        ("uuid", Schema::Uuid),
    ],
    required: &["uuid", "event", "links"],
};

/// Shapes that several operations share.
const SHARED: &[Member] = &[
    (
        "Links",
        List(&Closed {
            members: &[("href", Text), ("rel", Text), ("type", Text)],
            required: &["href", "rel"],
        }),
    ),
    (
        "Patch",
        List(&Closed {
            members: &[
                (
                    "op",
                    OneOf(&["add", "replace", "remove", "test", "copy", "move"]),
                ),
                ("path", Text),
                ("from", Text),
                ("value", Any),
            ],
            required: &["op", "path"],
        }),
    ),
    (
        "Step",
        Closed {
            members: &[
                ("interface", Text),
                ("step", Text),
                ("args", Object),
                ("priority", Int),
                ("order", Int),
            ],
            required: &["interface", "step", "args"],
        },
    ),
    (
        "States",
        Closed {
            members: &[
                ("boot_mode", Nullable(&Text)),
                ("console_enabled", Schema::Bool),
                ("last_error", Nullable(&Text)),
                ("power_state", Nullable(&Text)),
                ("provision_state", Nullable(&Text)),
                ("provision_updated_at", Nullable(&Schema::Time)),
                ("raid_config", Object),
                ("secure_boot", Nullable(&Schema::Bool)),
                ("target_power_state", Nullable(&Text)),
                ("target_provision_state", Nullable(&Text)),
                ("target_raid_config", Object),
            ],
            required: &["power_state", "provision_state"],
        },
    ),
    (
        "Conductor",
        Closed {
            members: &[
                ("alive", Schema::Bool),
                ("conductor_group", Text),
                ("created_at", Schema::Time),
                ("drivers", List(&Text)),
                ("hostname", Text),
                ("links", LINKS),
                ("updated_at", Nullable(&Schema::Time)),
            ],
            required: &["links"],
        },
    ),
    (
        "Inventory",
        Closed {
            members: &[("inventory", Object), ("plugin_data", Object)],
            required: &["inventory", "plugin_data"],
        },
    ),
    ("History", HISTORY),
    (
        "HistoryList",
        Closed {
            members: &[("history", List(&HISTORY)), ("next", Text)],
            required: &["history"],
        },
    ),
    (
        "Fault",
        Schema::Either(&[
            // The usual one: a text that holds JSON.
            Closed {
                members: &[("error_message", Text)],
                required: &["error_message"],
            },
            // Of the authentication.
            Closed {
                members: &[(
                    "error",
                    Closed {
                        members: &[("code", Int), ("message", Text)],
                        required: &["code", "message"],
                    },
                )],
                required: &["error"],
            },
            // Of a body that is too long.
            Closed {
                members: &[
                    ("faultcode", Text),
                    ("faultstring", Text),
                    ("debuginfo", Nullable(&Text)),
                ],
                required: &["faultcode", "faultstring"],
            },
        ]),
    ),
];

/// The answers that every operation may give.
pub(super) fn responses() -> Value {
    let fault = |description: &str| {
        json!({
            "description": description,
            "content": {"application/json": {"schema": Ref("Fault").json()}},
        })
    };
    json!({
        "Refused": fault("The request was refused; the body says why."),
        "Busy": fault("There is no room for this now, or no conductor: try again later."),
    })
}
