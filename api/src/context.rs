//! What is known of a request before its handler runs.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use wrought_wire::microversion::Microversion;

use crate::error::ApiError;
use crate::error::Result;
use crate::version;

/// Put into a request by whoever accepted its connection over TLS.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OverTls;

/// Put into a request by whoever accepted its connection: where it came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// What the front has found out.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// The version to answer in.
    pub(crate) version: Microversion,
    /// What links begin with, without a slash at the end.
    pub(crate) base: Arc<str>,
}

impl Context {
    /// Whether the version has what first came with 1.`since`.
    pub(crate) fn has(&self, since: u16) -> bool {
        version::has(self.version, since)
    }

    /// 404 for a whole endpoint that came later, as if it were not there.
    pub(crate) fn endpoint(&self, since: u16) -> Result<()> {
        if self.has(since) {
            Ok(())
        } else {
            Err(ApiError::not_found("Not Found"))
        }
    }

    /// 405 for a change of what came later: some collections refuse the
    /// method rather than the path.
    pub(crate) fn writable(&self, since: u16) -> Result<()> {
        if self.has(since) {
            Ok(())
        } else {
            Err(ApiError::method_not_allowed())
        }
    }

    /// 406 for a part of a request that came later.
    pub(crate) fn needs(&self, what: &str, since: u16) -> Result<()> {
        if self.has(since) {
            Ok(())
        } else {
            Err(ApiError::too_new(what, since))
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Context {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // The front always sets it; a router used without one answers as 1.1.
        Ok(parts
            .extensions
            .get::<Self>()
            .cloned()
            .unwrap_or_else(|| Self {
                version: Microversion::MIN,
                base: Arc::from(""),
            }))
    }
}
