//! Who may do what: nobody asked, or HTTP basic authentication.

mod basic;
mod htpasswd;
mod roles;

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::Method;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use serde_json::json;
use wrought_rpc::Caller;

use crate::error::ApiError;

pub(crate) use roles::Role;

/// Authentication cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The setting is neither `none` nor `basic:FILE`.
    #[error("authentication {0:?} is neither \"none\" nor \"basic:FILE\"")]
    Setting(String),
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// A line of a file is not understood.
    #[error("{path}, line {line}: expected {expected}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What belongs there.
        expected: &'static str,
    },
}

/// How callers are told apart. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Auth {
    basic: Option<Arc<basic::Basic>>,
}

impl Auth {
    /// Everybody may do everything.
    pub fn none() -> Self {
        Self::default()
    }

    /// HTTP basic authentication against a file of `user:bcrypt-hash` lines
    /// (`$2a$`, `$2b$`, `$2y$`) that is read again when it changes. A file
    /// `roles` with `user: admin` or `user: reader` lines may give roles;
    /// users that it does not name are admins. It may come later; once it was
    /// there, its last good state stays in force.
    ///
    /// # Errors
    /// A file that is missing or not understood.
    pub fn basic(htpasswd: &Path, roles: Option<&Path>) -> Result<Self, AuthError> {
        Ok(Self {
            basic: Some(Arc::new(basic::Basic::open(htpasswd, roles)?)),
        })
    }

    /// Reads a setting: `none`, or `basic:FILE` with roles in `FILE.roles`.
    ///
    /// # Errors
    /// As [`Auth::basic`], and [`AuthError::Setting`].
    pub fn from_setting(setting: &str) -> Result<Self, AuthError> {
        match setting.split_once(':') {
            None if setting == "none" => Ok(Self::none()),
            Some(("basic", file)) if !file.is_empty() => {
                let roles = PathBuf::from(format!("{file}.roles"));
                Self::basic(Path::new(file), Some(&roles))
            }
            _ => Err(AuthError::Setting(setting.to_owned())),
        }
    }

    /// Whether callers are asked who they are.
    pub fn is_required(&self) -> bool {
        self.basic.is_some()
    }

    /// Tells whose request it is, or gives the answer that turns it away.
    pub(crate) async fn check(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Caller, Response> {
        let Some(basic) = &self.basic else {
            return Ok(Caller::default());
        };
        if is_public(path) {
            return Ok(Caller::default());
        }
        let (user, role) = basic
            .authenticate(headers)
            .await
            .map_err(Refusal::into_response)?;
        let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if role == Role::Reader && !reads {
            let message = format!("The role reader does not allow {method} {path}.");
            return Err(ApiError::forbidden(message).into_response());
        }
        Ok(Caller { user: Some(user) })
    }
}

/// Paths for everybody: what the ramdisk needs, versions, and liveness.
fn is_public(path: &str) -> bool {
    matches!(
        path,
        "/" | "/v1" | "/v1/lookup" | "/v1/continue_inspection" | "/healthcheck" | "/readiness"
    ) || path
        .strip_prefix("/v1/heartbeat/")
        .is_some_and(|node| !node.contains('/'))
}

/// Why credentials were not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    Missing,
    Wrong,
    Undecodable,
    OtherScheme(String),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, message) = match self {
            Self::Missing => (401, "Authorization required".to_owned()),
            Self::Wrong => (401, "Incorrect username or password".to_owned()),
            Self::Undecodable => (400, "Could not decode authorization token".to_owned()),
            Self::OtherScheme(kind) => (400, format!("Unsupported authorization type \"{kind}\"")),
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::UNAUTHORIZED);
        let body = json!({"error": {"message": message, "code": status.as_u16()}}).to_string();
        let mut response =
            (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let challenge = header::HeaderValue::from_static("Basic realm=\"Baremetal API\"");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::Auth;
    use super::is_public;

    #[test]
    fn public_paths_are_exactly_these() {
        for path in [
            "/",
            "/v1",
            "/v1/lookup",
            "/v1/heartbeat/n",
            "/v1/continue_inspection",
            "/healthcheck",
            "/readiness",
        ] {
            assert!(is_public(path), "{path}");
        }
        for path in [
            "/v1/nodes",
            "/v1/heartbeat",
            "/v1/heartbeat/n/x",
            "/v1/lookups",
            "/metrics",
        ] {
            assert!(!is_public(path), "{path}");
        }
    }

    #[test]
    fn settings() {
        assert!(!Auth::from_setting("none").unwrap().is_required());
        for bad in ["", "basic", "basic:", "keystone", "basic:/nowhere/htpasswd"] {
            assert!(Auth::from_setting(bad).is_err(), "{bad}");
        }
    }
}
