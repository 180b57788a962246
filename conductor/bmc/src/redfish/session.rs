//! Logging in: a session where the service has them, else basic authentication.

use reqwest::Method;
use serde_json::Value;
use serde_json::json;
use wrought_wire::secret::Secret;

use super::AuthType;
use super::Client;
use super::Error;
use super::http::Failure;
use super::json;

/// The root of every Redfish service.
pub(crate) const ROOT: &str = "/redfish/v1/";

/// How the client is logged in.
#[derive(Debug, Clone)]
pub(crate) enum Login {
    /// Not yet.
    Unknown,
    /// Nothing is sent.
    Anonymous,
    /// User and password with every request.
    Basic,
    /// A token with every request.
    Session {
        /// Sent as `X-Auth-Token`.
        token: Secret,
        /// The session's own resource.
        location: Option<String>,
    },
}

impl Client {
    /// The login to use now; logs in first when there is none.
    pub(crate) async fn login(&self) -> Result<Login, Failure> {
        let mut login = self.inner.login.lock().await;
        if matches!(*login, Login::Unknown) {
            *login = self.log_in().await?;
        }
        Ok(login.clone())
    }

    /// Drops a token that the service no longer accepts, unless another task
    /// has replaced it already.
    pub(crate) async fn forget(&self, stale: &Secret) {
        let mut login = self.inner.login.lock().await;
        if matches!(&*login, Login::Session { token, .. } if token == stale) {
            *login = Login::Unknown;
        }
    }

    /// Ends the session, if there is one. BMCs have room for few of them.
    pub async fn close(&self) {
        let login = std::mem::replace(&mut *self.inner.login.lock().await, Login::Unknown);
        if let Login::Session {
            location: Some(path),
            ..
        } = &login
            && self
                .once(&Method::DELETE, path, None, None, &login)
                .await
                .is_err()
        {
            tracing::debug!(address = self.address(), "the session could not be ended");
        }
    }

    async fn log_in(&self) -> Result<Login, Failure> {
        let endpoint = &self.inner.endpoint;
        let Some(user) = &endpoint.username else {
            return Ok(Login::Anonymous);
        };
        if endpoint.auth == AuthType::Basic {
            return Ok(Login::Basic);
        }
        let root = self
            .once(&Method::GET, ROOT, None, None, &Login::Anonymous)
            .await?;
        let Some(sessions) = sessions_path(&root.body, root.status.as_u16()) else {
            return self.without_session("no SessionService");
        };
        let body = json!({"UserName": user, "Password": endpoint.password.expose()});
        let reply = self
            .once(
                &Method::POST,
                &sessions,
                Some(&body),
                None,
                &Login::Anonymous,
            )
            .await?;
        match (reply.status.as_u16(), reply.token) {
            (200..=299, Some(token)) => Ok(Login::Session {
                token,
                location: reply.location,
            }),
            (401, _) => Err(Failure::Final(Error::Auth {
                path: sessions,
                user: user.clone(),
                status: 401,
            })),
            (status, _) => self.without_session(&format!("HTTP {status} from {sessions}")),
        }
    }

    fn without_session(&self, found: &str) -> Result<Login, Failure> {
        if self.inner.endpoint.auth == AuthType::Session {
            return Err(Failure::Final(Error::Unsupported {
                path: ROOT.to_owned(),
                wanted: "a session (redfish_auth_type session)".to_owned(),
                offered: found.to_owned(),
            }));
        }
        tracing::debug!(
            address = self.address(),
            found,
            "using basic authentication"
        );
        Ok(Login::Basic)
    }
}

/// Where sessions are made; the usual place when the root cannot be read
/// without being logged in.
fn sessions_path(root: &Value, status: u16) -> Option<String> {
    if status == 401 {
        return Some("/redfish/v1/SessionService/Sessions".to_owned());
    }
    json::link(root, "/Links/Sessions").or_else(|| {
        let service = json::link(root, "/SessionService")?;
        Some(format!("{}/Sessions", service.trim_end_matches('/')))
    })
}
