//! Failed requests: one type, and the one place where each kind of failure gets
//! its HTTP status and Ironic's body.

use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use wrought_rpc::Kind;
use wrought_wire::fault::Fault;

/// Outcome of a handler.
pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

/// A failed request with its status and the sentence for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    fault: Fault,
    /// The body is the plain fault, not one in a string: what Ironic does when
    /// a body is too large.
    plain: bool,
}

impl ApiError {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            fault: Fault::new(status.as_u16(), message),
            plain: false,
        }
    }

    /// 400: the request is wrong.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 400: a request without what it must have.
    pub(crate) fn missing(name: &str) -> Self {
        Self::bad_request(format!("Missing mandatory parameter: {name}"))
    }

    /// 400: two ways of choosing fields at once.
    pub(crate) fn detail_and_fields() -> Self {
        Self::bad_request("Can not specify ?detail=True and fields in the same request.")
    }

    /// What a conductor says of a part that a driver may lack: 404 where it
    /// lacks it.
    pub(crate) fn missing_driver_part(error: wrought_rpc::Error) -> Self {
        match error.kind {
            Kind::Unsupported => Self::not_found(error.message),
            _ => error.into(),
        }
    }

    /// 403: the caller may not.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    /// 404: there is no such thing.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// 404 of a node, in the words that clients know.
    pub(crate) fn no_node(ident: &str) -> Self {
        Self::not_found(format!("Node {ident} could not be found."))
    }

    /// 405: the path does not take the method.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "The method is not allowed for this path.",
        )
    }

    /// 406: the microversion does not have it.
    pub(crate) fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, message)
    }

    /// 406 for something that a later microversion has.
    pub(crate) fn too_new(what: &str, since: u16) -> Self {
        Self::not_acceptable(format!(
            "Request not acceptable. {what} needs API version 1.{since} or later."
        ))
    }

    /// 408: the body did not come in time.
    pub(crate) fn too_slow() -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "The request body did not arrive in time.",
        )
    }

    /// 409: not now.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    /// 413: more bytes than the path takes.
    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("The request body is larger than {limit} bytes.");
        Self {
            plain: true,
            ..Self::new(StatusCode::PAYLOAD_TOO_LARGE, message)
        }
    }

    /// 503: not now, and not by any fault of the request.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// 500: our own fault. The chain of causes goes to the log alone.
    pub(crate) fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        log(error);
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The service failed inside; its log has the cause under this request's id.",
        )
    }

    /// The same failure told as 400: things that are missing although the
    /// request itself names them.
    pub(crate) fn into_bad_request(mut self) -> Self {
        self.fault.status = StatusCode::BAD_REQUEST.as_u16();
        self
    }

    /// The status.
    #[cfg(test)]
    pub(crate) fn status(&self) -> u16 {
        self.fault.status
    }
}

/// What failed, with its chain of causes: for the log alone.
fn log(error: &(dyn std::error::Error + 'static)) {
    let mut chain = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        chain.push_str(": ");
        chain.push_str(&cause.to_string());
        next = cause.source();
    }
    tracing::error!(error = chain, "request failed");
}

/// The one mapping of what a conductor says to an HTTP status.
impl From<wrought_rpc::Error> for ApiError {
    fn from(error: wrought_rpc::Error) -> Self {
        let status = match error.kind {
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::InvalidParameter | Kind::InvalidState | Kind::Unsupported => {
                StatusCode::BAD_REQUEST
            }
            Kind::NodeLocked | Kind::Conflict | Kind::Stale => StatusCode::CONFLICT,
            Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::Busy | Kind::NotMine => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status.is_server_error() {
            tracing::warn!(kind = ?error.kind, error = error.message, "the conductor failed");
        }
        Self::new(status, error.message)
    }
}

impl From<wrought_store::Error> for ApiError {
    fn from(error: wrought_store::Error) -> Self {
        use wrought_store::Error;
        match &error {
            Error::MarkerNotFound { marker, .. } => {
                Self::not_found(format!("The marker {marker} could not be found."))
            }
            Error::InvalidSortKey { key, .. } => Self::bad_request(format!(
                "The sort_key value {key} is an invalid field for sorting"
            )),
            Error::NotFound { what, ident } => {
                Self::not_found(format!("{what} {ident} could not be found."))
            }
            _ if error.is_unavailable() => {
                log(&error);
                Self::unavailable("The database cannot be used at present, please retry later.")
            }
            _ => Self::internal(&error),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.fault.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = self.fault.to_body();
        let body = match self.plain {
            true => plain(&body).unwrap_or(body),
            false => body,
        };
        (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}

/// Takes the inner fault out of its string.
fn plain(body: &str) -> Option<String> {
    let outer: serde_json::Value = serde_json::from_str(body).ok()?;
    outer.get("error_message")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use wrought_rpc::Error;
    use wrought_rpc::Kind;

    use super::ApiError;
    use super::plain;

    #[test]
    fn kinds_have_their_status() {
        for (kind, status) in [
            (Kind::NotFound, 404),
            (Kind::InvalidParameter, 400),
            (Kind::InvalidState, 400),
            (Kind::Unsupported, 400),
            (Kind::NodeLocked, 409),
            (Kind::Conflict, 409),
            (Kind::Stale, 409),
            (Kind::Forbidden, 403),
            (Kind::Busy, 503),
            (Kind::NotMine, 503),
            (Kind::Hardware, 500),
            (Kind::Internal, 500),
        ] {
            assert_eq!(
                ApiError::from(Error::new(kind, "x")).status(),
                status,
                "{kind:?}"
            );
        }
    }

    #[test]
    fn too_large_has_a_plain_body() {
        let body = ApiError::too_large(5).fault.to_body();
        assert!(
            plain(&body)
                .unwrap()
                .starts_with("{\"debuginfo\":null,\"faultcode\":\"Client\"")
        );
    }
}
