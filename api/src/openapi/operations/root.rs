//! What the API says of itself.

use super::super::operation::Operation;
use super::super::operation::get;
use super::super::schema::Schema;
use super::super::schema::Schema::Closed;
use super::super::schema::Schema::Object;
use super::super::schema::Schema::Text;

/// What says how the service is.
const STATUS: Schema = Closed {
    members: &[("status", Text)],
    required: &["status"],
};

pub(super) const OPERATIONS: &[Operation] = &[
    get("/", 1, "Names the API and its versions.", Object),
    get("/v1", 1, "Lists the collections of the version.", Object),
    get(
        "/healthcheck",
        1,
        "Tells whether the service lives and can read the database.",
        STATUS,
    ),
    get(
        "/readiness",
        1,
        "Tells whether the service can do what it is asked: 503 when the database cannot be read or no conductor is alive.",
        STATUS,
    ),
    get("/openapi.json", 1, "Gives this document.", Object),
    get("/metrics", 1, "Gives figures for Prometheus.", Text).of_media("text/plain"),
];
