//! What is below a node for its hardware, vendor methods, and events.

use super::super::operation::Operation;
use super::super::operation::delete;
use super::super::operation::get;
use super::super::operation::operation;
use super::super::operation::put;
use super::super::schema::Schema;
use super::super::schema::Schema::Any;
use super::super::schema::Schema::AtLeast;
use super::super::schema::Schema::Bool;
use super::super::schema::Schema::Closed;
use super::super::schema::Schema::Either;
use super::super::schema::Schema::Int;
use super::super::schema::Schema::List;
use super::super::schema::Schema::MapOf;
use super::super::schema::Schema::Nullable;
use super::super::schema::Schema::Object;
use super::super::schema::Schema::OneOf;
use super::super::schema::Schema::Ref;
use super::super::schema::Schema::Text;
use super::super::schema::Schema::Time;
use super::super::schema::Schema::Uuid;
use crate::query::Known;
use crate::version::since;

pub(super) const OPERATIONS: &[Operation] = &[
    put(
        "/v1/nodes/{ident}/states/raid",
        since::RAID,
        "Sets the RAID that is to be.",
    )
    .takes(RAID),
    put(
        "/v1/nodes/{ident}/states/boot_mode",
        since::SET_BOOT_MODE,
        "Changes the boot mode.",
    )
    .takes(Closed {
        members: &[("target", OneOf(&["bios", "uefi"]))],
        required: &["target"],
    })
    .accepted(),
    put(
        "/v1/nodes/{ident}/states/secure_boot",
        since::SET_BOOT_MODE,
        "Switches secure boot.",
    )
    .takes(Closed {
        members: &[("target", FLAG)],
        required: &["target"],
    })
    .accepted(),
    get(
        "/v1/nodes/{ident}/states/console",
        1,
        "Shows whether the console is on and how it is reached.",
        Closed {
            members: &[
                ("console_enabled", Bool),
                ("console_info", Nullable(&Object)),
            ],
            required: &["console_enabled", "console_info"],
        },
    ),
    put(
        "/v1/nodes/{ident}/states/console",
        1,
        "Switches the console.",
    )
    .takes(Closed {
        members: &[("enabled", FLAG)],
        required: &["enabled"],
    })
    .accepted(),
    put(
        "/v1/nodes/{ident}/management/inject_nmi",
        since::INJECT_NMI,
        "Sends a non-maskable interrupt.",
    )
    .takes(Closed {
        members: &[],
        required: &[],
    }),
    get(
        "/v1/nodes/{ident}/management/indicators",
        1,
        "Lists the indicators of a node.",
        Closed {
            members: &[(
                "indicators",
                List(&Closed {
                    members: &[
                        ("name", Text),
                        ("component", Text),
                        ("readonly", Bool),
                        ("states", List(&INDICATOR)),
                        ("links", Ref("Links")),
                    ],
                    required: &["name", "component", "readonly", "states", "links"],
                }),
            )],
            required: &["indicators"],
        },
    ),
    get(
        "/v1/nodes/{ident}/management/indicators/{indicator}",
        1,
        "Shows the state of an indicator.",
        Closed {
            members: &[("state", INDICATOR)],
            required: &["state"],
        },
    ),
    put(
        "/v1/nodes/{ident}/management/indicators/{indicator}",
        1,
        "Sets an indicator.",
    )
    .takes(Closed {
        members: &[("state", Text)],
        required: &["state"],
    }),
    get(
        "/v1/nodes/{ident}/bios",
        since::BIOS,
        "Lists the BIOS settings of a node.",
        Closed {
            members: &[("bios", List(&SETTING))],
            required: &["bios"],
        },
    )
    .query(&[&[
        ("detail", since::BIOS_REGISTRY),
        ("fields", since::BIOS_REGISTRY),
    ]]),
    get(
        "/v1/nodes/{ident}/bios/{setting}",
        since::BIOS,
        "Shows a BIOS setting under its name.",
        MapOf(&SETTING),
    ),
    get(
        "/v1/nodes/{ident}/firmware",
        since::FIRMWARE,
        "Lists the firmware of a node.",
        Closed {
            members: &[("firmware", List(&COMPONENT))],
            required: &["firmware"],
        },
    ),
    get(
        "/v1/nodes/{ident}/vifs",
        since::VIFS,
        "Lists the virtual interfaces of a node.",
        Closed {
            members: &[(
                "vifs",
                List(&Closed {
                    members: &[("id", Text)],
                    required: &["id"],
                }),
            )],
            required: &["vifs"],
        },
    ),
    operation(
        "POST",
        "/v1/nodes/{ident}/vifs",
        since::VIFS,
        "Attaches a virtual interface; other members are left alone.",
    )
    .takes(Object),
    delete(
        "/v1/nodes/{ident}/vifs/{vif}",
        since::VIFS,
        "Detaches a virtual interface.",
    ),
    get(
        "/v1/nodes/{ident}/vmedia",
        since::VMEDIA_GET,
        "Lists the devices for virtual media.",
        List(&Closed {
            members: &[
                ("media_types", List(&Text)),
                ("inserted", Bool),
                ("image", Nullable(&Text)),
            ],
            required: &["media_types", "inserted", "image"],
        }),
    ),
    operation(
        "POST",
        "/v1/nodes/{ident}/vmedia",
        since::VMEDIA,
        "Puts an image into a device.",
    )
    .takes(Closed {
        members: &[
            ("device_type", OneOf(&["disk", "cdrom", "floppy"])),
            ("image_url", Text),
            ("image_download_source", OneOf(&["http", "local", "swift"])),
        ],
        required: &["device_type", "image_url"],
    }),
    delete(
        "/v1/nodes/{ident}/vmedia",
        since::VMEDIA,
        "Empties devices.",
    )
    .query(&[&[("device_types", since::VMEDIA)]]),
    vendor("GET", "/v1/nodes/{ident}/vendor_passthru").query(METHOD),
    vendor("POST", "/v1/nodes/{ident}/vendor_passthru").query(METHOD),
    vendor("PUT", "/v1/nodes/{ident}/vendor_passthru").query(METHOD),
    vendor("PATCH", "/v1/nodes/{ident}/vendor_passthru").query(METHOD),
    vendor("DELETE", "/v1/nodes/{ident}/vendor_passthru").query(METHOD),
    vendor("GET", "/v1/nodes/{ident}/vendor_passthru/{method}"),
    vendor("POST", "/v1/nodes/{ident}/vendor_passthru/{method}"),
    vendor("PUT", "/v1/nodes/{ident}/vendor_passthru/{method}"),
    vendor("PATCH", "/v1/nodes/{ident}/vendor_passthru/{method}"),
    vendor("DELETE", "/v1/nodes/{ident}/vendor_passthru/{method}"),
    get(
        "/v1/nodes/{ident}/vendor_passthru/methods",
        1,
        "Lists the vendor methods.",
        METHODS,
    ),
    get(
        "/v1/drivers/{name}/raid/logical_disk_properties",
        since::RAID,
        "Describes what a logical disk may say of itself.",
        MapOf(&Text),
    ),
    vendor("GET", "/v1/drivers/{name}/vendor_passthru").query(METHOD),
    vendor("POST", "/v1/drivers/{name}/vendor_passthru").query(METHOD),
    vendor("PUT", "/v1/drivers/{name}/vendor_passthru").query(METHOD),
    vendor("PATCH", "/v1/drivers/{name}/vendor_passthru").query(METHOD),
    vendor("DELETE", "/v1/drivers/{name}/vendor_passthru").query(METHOD),
    vendor("GET", "/v1/drivers/{name}/vendor_passthru/{method}"),
    vendor("POST", "/v1/drivers/{name}/vendor_passthru/{method}"),
    vendor("PUT", "/v1/drivers/{name}/vendor_passthru/{method}"),
    vendor("PATCH", "/v1/drivers/{name}/vendor_passthru/{method}"),
    vendor("DELETE", "/v1/drivers/{name}/vendor_passthru/{method}"),
    get(
        "/v1/drivers/{name}/vendor_passthru/methods",
        1,
        "Lists the vendor methods.",
        METHODS,
    ),
    operation(
        "POST",
        "/v1/events",
        since::EVENTS,
        "Tells what happened elsewhere.",
    )
    .takes(EVENTS),
];

/// A vendor method has answers of its own.
const fn vendor(method: &'static str, path: &'static str) -> Operation {
    operation(method, path, 1, "Calls a vendor method; 202 while it runs.").answers(200, Any)
}

const METHOD: &[&[Known]] = &[&[("method", 1)]];

const METHODS: Schema = MapOf(&Closed {
    members: &[
        ("http_methods", List(&Text)),
        ("async", Bool),
        ("description", Text),
        ("attach", Bool),
        ("require_exclusive_lock", Bool),
    ],
    required: &[
        "http_methods",
        "async",
        "description",
        "attach",
        "require_exclusive_lock",
    ],
});

/// A boolean, also as a word.
const FLAG: Schema = Either(&[Bool, Text]);

const INDICATOR: Schema = OneOf(&["on", "off", "blinking", "unknown"]);

const RAID: Schema = Closed {
    members: &[(
        "logical_disks",
        List(&Closed {
            members: &[
                ("controller", Text),
                ("disk_type", OneOf(&["hdd", "ssd"])),
                ("interface_type", OneOf(&["sata", "scsi", "sas"])),
                ("is_root_volume", Bool),
                ("number_of_physical_disks", AtLeast(0)),
                ("physical_disks", List(&Either(&[Text, Object]))),
                (
                    "raid_level",
                    OneOf(&["JBOD", "0", "1", "2", "5", "6", "1+0", "5+0", "6+0"]),
                ),
                ("share_physical_disks", Bool),
                ("size_gb", Either(&[AtLeast(0), OneOf(&["MAX"])])),
                ("volume_name", Text),
            ],
            required: &["raid_level", "size_gb"],
        }),
    )],
    required: &[],
};

const SETTING: Schema = Closed {
    members: &[
        ("created_at", Time),
        ("updated_at", Nullable(&Time)),
        ("name", Text),
        ("value", Nullable(&Text)),
        ("allowable_values", Nullable(&List(&Text))),
        ("attribute_type", Nullable(&Text)),
        ("lower_bound", Nullable(&Int)),
        ("max_length", Nullable(&Int)),
        ("min_length", Nullable(&Int)),
        ("read_only", Nullable(&Bool)),
        ("reset_required", Nullable(&Bool)),
        ("unique", Nullable(&Bool)),
        ("upper_bound", Nullable(&Int)),
        ("links", Ref("Links")),
    ],
    required: &["links"],
};

const COMPONENT: Schema = Closed {
    members: &[
        ("created_at", Time),
        ("updated_at", Nullable(&Time)),
        ("component", Text),
        ("initial_version", Text),
        ("current_version", Nullable(&Text)),
        ("last_version_flashed", Nullable(&Text)),
        ("vendor", Nullable(&Text)),
        ("model", Nullable(&Text)),
        ("serial_number", Nullable(&Text)),
    ],
    required: &["component", "initial_version"],
};

const EVENTS: Schema = Closed {
    members: &[(
        "events",
        List(&Closed {
            members: &[
                (
                    "event",
                    OneOf(&[
                        "network.bind_port",
                        "network.unbind_port",
                        "network.delete_port",
                    ]),
                ),
                ("port_id", Uuid),
                ("mac_address", Text),
                ("status", Text),
                ("device_id", Uuid),
                ("binding:host_id", Uuid),
                ("binding:vnic_type", Text),
            ],
            required: &["event", "port_id", "mac_address", "status"],
        }),
    )],
    required: &["events"],
};
