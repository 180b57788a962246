//! How talking to a Redfish service fails.

use reqwest::Method;

/// A failed call. Messages name the resource path, what was expected, what was
/// found and, where it helps, what to do. Passwords and tokens never appear.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The node's `driver_info` does not describe an endpoint.
    #[error("driver_info {property}: {problem}")]
    Endpoint {
        /// The property.
        property: &'static str,
        /// Expected and found.
        problem: String,
    },
    /// The HTTP client could not be made, as a rule because of the CA setting.
    #[error(
        "no client for the BMC at {address}; check redfish_verify_ca and the system's CA certificates"
    )]
    Setup {
        /// Address of the BMC.
        address: String,
        /// Cause.
        source: reqwest::Error,
    },
    /// The BMC's certificate was not accepted.
    #[error(
        "the certificate of the BMC at {address} is not trusted; put its CA into redfish_verify_ca (a PEM file) or set it to false"
    )]
    Certificate {
        /// Address of the BMC.
        address: String,
        /// Cause.
        source: reqwest::Error,
    },
    /// The BMC could not be reached or broke the connection.
    #[error("{method} {path}: the BMC at {address} does not answer after {attempts} attempts")]
    Unreachable {
        /// HTTP method.
        method: Method,
        /// Path of the resource.
        path: String,
        /// Address of the BMC.
        address: String,
        /// How often it was tried.
        attempts: u32,
        /// Cause.
        source: reqwest::Error,
    },
    /// User name or password were refused.
    #[error(
        "{path}: the BMC refused the credentials of user {user:?} (HTTP {status}); check redfish_username and redfish_password"
    )]
    Auth {
        /// Path of the resource.
        path: String,
        /// User name, empty when none is set.
        user: String,
        /// HTTP status: 401.
        status: u16,
    },
    /// A resource is missing.
    #[error("{path}: not found on the BMC; expected {expected}")]
    NotFound {
        /// Path of the resource.
        path: String,
        /// What should be there.
        expected: String,
    },
    /// Still busy or in conflict after all attempts.
    #[error(
        "{method} {path}: the BMC stayed busy (HTTP {status}) for {attempts} attempts: {message}"
    )]
    Busy {
        /// HTTP method.
        method: Method,
        /// Path of the resource.
        path: String,
        /// HTTP status of the last attempt: 409, 429 or 503.
        status: u16,
        /// How often it was tried.
        attempts: u32,
        /// The service's own words, cut to a few hundred bytes.
        message: String,
    },
    /// The service answered with an error.
    #[error("{method} {path}: the BMC answered HTTP {status}: {message}")]
    Status {
        /// HTTP method.
        method: Method,
        /// Path of the resource.
        path: String,
        /// HTTP status.
        status: u16,
        /// The service's own words, cut to a few hundred bytes.
        message: String,
    },
    /// A link or redirect leads away from the BMC's own address.
    #[error(
        "{path}: the BMC refers to {target:?}, which is not on its own address; set redfish_address to where the service really is"
    )]
    Elsewhere {
        /// Path of the resource.
        path: String,
        /// Where it leads.
        target: String,
    },
    /// More bytes than any sound service sends.
    #[error("{path}: the answer is larger than {limit} bytes")]
    TooLarge {
        /// Path of the resource.
        path: String,
        /// The bound, in bytes.
        limit: usize,
    },
    /// The answer is not what Redfish says.
    #[error("{path}: expected {expected}, found {found}")]
    Malformed {
        /// Path of the resource.
        path: String,
        /// What should be there.
        expected: String,
        /// What was there.
        found: String,
    },
    /// The service does not offer what was asked for.
    #[error("{path}: {wanted} is not offered by the BMC; it offers {offered}")]
    Unsupported {
        /// Path of the resource.
        path: String,
        /// What was wanted.
        wanted: String,
        /// What is on offer.
        offered: String,
    },
    /// The service accepted a change that did not come about.
    #[error("{path}: {what} is {found} {seconds} s after {expected} was requested")]
    NotReached {
        /// Path of the resource.
        path: String,
        /// The property.
        what: &'static str,
        /// The target.
        expected: String,
        /// What it is.
        found: String,
        /// Seconds waited.
        seconds: u64,
    },
}

impl Error {
    /// Whether the same call may well succeed a little later, without anyone
    /// changing anything.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Busy { .. } | Self::NotReached { .. } => true,
            Self::Status { status, .. } => *status >= 500,
            _ => false,
        }
    }

    /// Whether the node's settings are at fault rather than the BMC.
    pub const fn is_configuration(&self) -> bool {
        matches!(self, Self::Endpoint { .. } | Self::Setup { .. })
    }

    /// Whether the service refused the request itself (4xx), so that another
    /// form of it may be tried.
    pub(crate) const fn is_refusal(&self) -> bool {
        match self {
            Self::Status { status, .. } => *status >= 400 && *status < 500 || *status == 501,
            Self::NotFound { .. } => true,
            Self::Busy { status, .. } => *status == 409,
            _ => false,
        }
    }
}
