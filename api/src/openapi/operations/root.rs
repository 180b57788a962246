//! What the API says of itself.

use super::super::operation::Operation;
use super::super::operation::get;
use super::super::schema::Schema::Closed;
use super::super::schema::Schema::Object;
use super::super::schema::Schema::Text;

pub(super) const OPERATIONS: &[Operation] = &[
    get("/", 1, "Names the API and its versions.", Object),
    get("/v1", 1, "Lists the collections of the version.", Object),
    get(
        "/healthcheck",
        1,
        "Tells whether the service can work.",
        Closed {
            members: &[("status", Text)],
            required: &["status"],
        },
    ),
    get("/openapi.json", 1, "Gives this document.", Object),
];
