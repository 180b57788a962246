//! What the agents in the ramdisks call; these need no credentials.

use super::super::operation::Operation;
use super::super::operation::get;
use super::super::operation::operation;
use super::super::schema::Schema::Closed;
use super::super::schema::Schema::Either;
use super::super::schema::Schema::Nullable;
use super::super::schema::Schema::Object;
use super::super::schema::Schema::OneOf;
use super::super::schema::Schema::Text;
use super::super::schema::Schema::Uuid;
use crate::version::since::CONTINUE_INSPECTION;
use crate::version::since::RAMDISK;

pub(super) const OPERATIONS: &[Operation] = &[
    get(
        "/v1/lookup",
        RAMDISK,
        "Tells an agent which node it runs on.",
        Closed {
            members: &[("node", Object), ("config", Object)],
            required: &["node", "config"],
        },
    )
    .query(&[&[("addresses", RAMDISK), ("node_uuid", RAMDISK)]]),
    operation(
        "POST",
        "/v1/continue_inspection",
        CONTINUE_INSPECTION,
        "Says what a ramdisk has found out about its machine.",
    )
    .query(&[&[("node_uuid", CONTINUE_INSPECTION)]])
    .takes(Object)
    .answers(
        202,
        Either(&[
            Closed {
                members: &[("node", Object), ("config", Object)],
                required: &["node", "config"],
            },
            // To ramdisks that name no version.
            Closed {
                members: &[("uuid", Uuid)],
                required: &["uuid"],
            },
        ]),
    ),
    operation(
        "POST",
        "/v1/heartbeat/{ident}",
        RAMDISK,
        "Says that the agent of a node lives.",
    )
    .takes(Closed {
        members: &[
            ("callback_url", Text),
            ("agent_version", Nullable(&Text)),
            ("version", Nullable(&Text)),
            ("agent_token", Nullable(&Text)),
            ("agent_verify_ca", Nullable(&Text)),
            ("agent_status", Nullable(&OneOf(&["start", "end", "error"]))),
            ("agent_status_message", Nullable(&Text)),
        ],
        required: &["callback_url"],
    })
    .accepted(),
];
