//! Error answers: `{"faultcode": …, "faultstring": …}`.

use axum::Json;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::response::Response;
use serde_json::json;

use crate::command::Rejected;

/// A request that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    status: u16,
    text: String,
}

impl Fault {
    /// Missing or wrong token.
    pub(super) fn token() -> Self {
        Self {
            status: 401,
            text: "401 Unauthorized: Token invalid.".to_owned(),
        }
    }

    /// No such path.
    pub(super) fn not_found() -> Self {
        let text = "404 Not Found: The requested URL was not found on the server. If you entered the URL manually please check your spelling and try again.";
        Self {
            status: 404,
            text: text.to_owned(),
        }
    }

    /// No such command result.
    pub(super) fn no_result(id: &str) -> Self {
        let text = format!("Not found: Command Result with id {id} not found.");
        Self { status: 404, text }
    }

    /// No such method on this path.
    pub(super) fn method() -> Self {
        let text = "405 Method Not Allowed: The method is not allowed for the requested URL.";
        Self {
            status: 405,
            text: text.to_owned(),
        }
    }

    /// A request that cannot be understood.
    pub(super) fn bad_request(problem: &str) -> Self {
        Self {
            status: 400,
            text: format!("400 Bad Request: {problem}"),
        }
    }

    /// More bytes than are read.
    pub(super) fn too_large(problem: &str) -> Self {
        Self {
            status: 413,
            text: format!("413 Request Entity Too Large: {problem}"),
        }
    }
}

impl From<Rejected> for Fault {
    fn from(rejected: Rejected) -> Self {
        Self {
            status: rejected.status(),
            text: rejected.to_string(),
        }
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let faultcode = if self.status >= 500 {
            "Server"
        } else {
            "Client"
        };
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = json!({ "faultcode": faultcode, "faultstring": self.text });
        (status, Json(body)).into_response()
    }
}
