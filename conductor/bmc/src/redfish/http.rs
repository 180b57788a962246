//! One request and its answer: bounded, retried with reason, never led astray.

use std::error::Error as _;
use std::io;

use reqwest::Method;
use reqwest::Response;
use reqwest::StatusCode;
use reqwest::Url;
use reqwest::header::ETAG;
use reqwest::header::HeaderMap;
use reqwest::header::IF_MATCH;
use reqwest::header::LOCATION;
use serde_json::Value;
use wrought_wire::secret::Secret;

use super::Client;
use super::Error;
use super::Result;
use super::json;
use super::session::Login;

/// Header that carries a session's token.
const TOKEN: &str = "x-auth-token";
/// Redirects that are followed within the service.
const REDIRECTS: u32 = 3;

/// An answer of the service.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) etag: Option<String>,
    pub(crate) location: Option<String>,
    pub(crate) token: Option<Secret>,
    /// Null when there is none or it is not JSON.
    pub(crate) body: Value,
}

/// Why one attempt gave no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// No answer came; trying again may help.
    Transport(reqwest::Error),
    /// Trying again does not help.
    Final(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

impl Client {
    /// Reads a resource.
    pub(crate) async fn get(&self, path: &str) -> Result<Reply> {
        let reply = self.request(Method::GET, path, None, None).await?;
        if !reply.body.is_object() {
            return Err(Error::Malformed {
                path: path.to_owned(),
                expected: "a JSON object".to_owned(),
                found: "something else".to_owned(),
            });
        }
        Ok(reply)
    }

    /// Calls an action. Actions are not repeated once they may have been heard.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Reply> {
        self.request(Method::POST, path, Some(body), None).await
    }

    /// Deletes a resource.
    pub(crate) async fn delete(&self, path: &str) -> Result<()> {
        self.request(Method::DELETE, path, None, None)
            .await
            .map(drop)
    }

    /// Changes a resource: with its ETag when it has one; a stale ETag is read
    /// again once, then left out (services exist that refuse their own).
    pub(crate) async fn patch(
        &self,
        path: &str,
        body: &Value,
        etag: Option<&str>,
    ) -> Result<Reply> {
        let refused = |result: &Result<Reply>| {
            matches!(
                result,
                Err(Error::Status {
                    status: 412 | 428,
                    ..
                })
            )
        };
        let first = self.request(Method::PATCH, path, Some(body), etag).await;
        if !refused(&first) {
            return first;
        }
        let fresh = self.get(path).await?.etag;
        let second = self
            .request(Method::PATCH, path, Some(body), fresh.as_deref())
            .await;
        if !refused(&second) {
            return second;
        }
        self.request(Method::PATCH, path, Some(body), None).await
    }

    /// Sends a request until it is answered for good.
    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        etag: Option<&str>,
    ) -> Result<Reply> {
        let tuning = &self.inner.tuning;
        let mut path = path.to_owned();
        let (mut attempt, mut redirects, mut renewed) = (1, 0, false);
        loop {
            let mut stale = None;
            let outcome = match self.login().await {
                Ok(login) => {
                    let outcome = self.once(&method, &path, body, etag, &login).await;
                    if let Login::Session { token, .. } = login {
                        stale = Some(token);
                    }
                    outcome
                }
                Err(failure) => Err(failure),
            };
            match outcome {
                Ok(reply)
                    if reply.status == StatusCode::UNAUTHORIZED && !renewed && stale.is_some() =>
                {
                    renewed = true;
                    if let Some(token) = stale {
                        self.forget(&token).await;
                    }
                    continue;
                }
                Ok(reply) if reply.status.is_redirection() => {
                    redirects += 1;
                    let keeps = method == Method::GET || matches!(reply.status.as_u16(), 307 | 308);
                    path = match reply.location {
                        Some(to) if keeps && redirects <= REDIRECTS => to,
                        to => {
                            let target = to.unwrap_or_else(|| reply.status.to_string());
                            return Err(Error::Elsewhere { path, target });
                        }
                    };
                    continue;
                }
                Ok(reply) if is_busy(reply.status) && attempt < tuning.attempts => {
                    tracing::debug!(%method, path, status = reply.status.as_u16(), attempt, "the BMC is busy");
                }
                Ok(reply) => return self.judge(method, path, reply, attempt),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Transport(source)) => {
                    let again = source.is_connect() || method != Method::POST;
                    if !again || attempt >= tuning.attempts {
                        let address = self.inner.endpoint.address.clone();
                        return Err(Error::Unreachable {
                            method,
                            path,
                            address,
                            attempts: attempt,
                            source,
                        });
                    }
                    tracing::debug!(%method, path, attempt, "the BMC does not answer");
                }
            }
            attempt += 1;
            tokio::time::sleep(tuning.delay).await;
        }
    }

    /// Sends one request once. Every HTTP status is an answer.
    pub(crate) async fn once(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        etag: Option<&str>,
        login: &Login,
    ) -> Result<Reply, Failure> {
        let endpoint = &self.inner.endpoint;
        let url = self.resolve(path, path)?;
        let mut request = self
            .inner
            .http
            .request(method.clone(), url)
            .header("accept", "application/json");
        request = match login {
            Login::Basic => {
                let user = endpoint.username.as_deref().unwrap_or_default();
                request.basic_auth(user, Some(endpoint.password.expose()))
            }
            Login::Session { token, .. } => request.header(TOKEN, token.expose()),
            Login::Unknown | Login::Anonymous => request,
        };
        if let Some(etag) = etag {
            request = request.header(IF_MATCH, etag);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request
            .send()
            .await
            .map_err(|source| self.classify(source))?;
        let status = response.status();
        tracing::trace!(%method, path, status = status.as_u16(), "redfish");
        let headers = response.headers().clone();
        let location = match header(&headers, LOCATION.as_str()) {
            Some(target) => match self.resolve(path, &target) {
                Ok(url) => Some(path_of(&url)),
                Err(error) if status.is_redirection() => return Err(error.into()),
                Err(_) => None,
            },
            None => None,
        };
        let bytes = self.read(path, response).await?;
        Ok(Reply {
            status,
            etag: header(&headers, ETAG.as_str()),
            location,
            token: header(&headers, TOKEN).map(Secret::new),
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        })
    }

    /// The URL of a path or link, which must stay on the service's origin.
    fn resolve(&self, from: &str, target: &str) -> Result<Url> {
        let elsewhere = || Error::Elsewhere {
            path: from.to_owned(),
            target: target.to_owned(),
        };
        let url = self.inner.base.join(target).map_err(|_| elsewhere())?;
        if url.origin() == self.inner.base.origin() {
            Ok(url)
        } else {
            Err(elsewhere())
        }
    }

    /// Reads a body up to the bound.
    async fn read(&self, path: &str, mut response: Response) -> Result<Vec<u8>, Failure> {
        let limit = self.inner.tuning.body_limit;
        let mut bytes = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|source| self.classify(source))?
        {
            if bytes.len() + chunk.len() > limit {
                return Err(Error::TooLarge {
                    path: path.to_owned(),
                    limit,
                }
                .into());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    fn classify(&self, source: reqwest::Error) -> Failure {
        if is_certificate(&source) {
            let address = self.inner.endpoint.address.clone();
            return Error::Certificate { address, source }.into();
        }
        Failure::Transport(source.without_url())
    }

    fn judge(&self, method: Method, path: String, reply: Reply, attempts: u32) -> Result<Reply> {
        let status = reply.status.as_u16();
        let message = || json::error_message(&reply.body);
        Err(match status {
            200..=299 => return Ok(reply),
            401 => {
                let user = self.inner.endpoint.username.clone().unwrap_or_default();
                Error::Auth { path, user, status }
            }
            404 => Error::NotFound {
                path,
                expected: "a Redfish resource".to_owned(),
            },
            409 | 429 | 503 => Error::Busy {
                message: message(),
                method,
                path,
                status,
                attempts,
            },
            _ => Error::Status {
                message: message(),
                method,
                path,
                status,
            },
        })
    }
}

fn is_busy(status: StatusCode) -> bool {
    matches!(status.as_u16(), 409 | 429 | 503)
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn path_of(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

/// Whether TLS failed because of the peer's certificate.
fn is_certificate(error: &reqwest::Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = error.source();
    while let Some(cause) = next {
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return matches!(tls, rustls::Error::InvalidCertificate(_));
        }
        // An I/O error gives the source of what it wraps, never what it wraps.
        next = match cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(wrapped) => Some(wrapped),
            None => cause.source(),
        };
    }
    false
}
