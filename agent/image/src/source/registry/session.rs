//! Being let in by a registry.
//!
//! A registry answers 401 and says where a token is to be had. The token
//! service is asked with the credentials of the registry, or with none; what
//! it gives is sent from then on, and asked for anew when it has expired.

use std::sync::Arc;

use reqwest::RequestBuilder;
use reqwest::Response;
use reqwest::StatusCode;
use reqwest::Url;
use reqwest::header;
use serde_json::Value;

use super::challenge::Challenge;
use super::reference::Reference;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::redact;
use crate::request::BasicAuth;
use crate::request::HttpOptions;
use crate::request::Secret;
use crate::source::Failed;
use crate::source::client::Http;

/// Most bytes of a token service's answer.
const TOKEN_LIMIT: usize = 1 << 20;

/// What one registry has let us in with.
pub(in crate::source) struct Session {
    http: Arc<Http>,
    /// `HOST[:PORT]`.
    host: String,
    repository: String,
    base: Url,
    login: Option<BasicAuth>,
    /// Value of `Authorization`.
    header: Option<Secret>,
    /// Basic credentials are what the registry wants.
    basic: bool,
}

impl Session {
    pub(super) fn new(http: &Arc<Http>, reference: &Reference, options: &HttpOptions) -> Self {
        let named = options
            .logins
            .iter()
            .find(|login| login.host == reference.host)
            .map(|login| login.auth.clone());
        Self {
            http: Arc::clone(http),
            host: reference.host.clone(),
            repository: reference.repository.clone(),
            base: reference.base.clone(),
            login: options.basic_auth.clone().or(named),
            header: options.authorization.clone(),
            basic: false,
        }
    }

    /// Adds to a request what is known to be wanted.
    pub(in crate::source) fn add(&self, request: RequestBuilder) -> RequestBuilder {
        match (&self.header, &self.login) {
            (Some(value), _) => request.header(header::AUTHORIZATION, value.expose()),
            (None, Some(auth)) if self.basic => {
                request.basic_auth(&auth.user, Some(auth.password.expose()))
            }
            _ => request,
        }
    }

    /// Does what the answer 401 asks for.
    pub(in crate::source) fn renew(&mut self, response: &Response) -> Result<(), Failed> {
        // A store that the registry leads to has no say in who gets our
        // credentials.
        if response.url().origin() != self.base.origin() {
            return Err(Failed::Final(self.denied()));
        }
        let challenges: Vec<Challenge> = response
            .headers()
            .get_all(header::WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(Challenge::parse_all)
            .collect();
        let find = |scheme: &str| challenges.iter().find(|c| c.scheme == scheme);
        if let Some(bearer) = find("bearer") {
            self.header = Some(self.token(bearer)?);
            return Ok(());
        }
        if find("basic").is_some() && self.login.is_some() && !self.basic {
            self.header = None;
            self.basic = true;
            return Ok(());
        }
        Err(Failed::Final(self.denied()))
    }

    /// The registry said no.
    pub(super) fn denied(&self) -> Error {
        let advice = if self.login.is_some() || self.header.is_some() {
            "with the credentials that were given"
        } else {
            "without credentials; give some with --user or --registry-auth-file"
        };
        self.error(&format!(
            "the registry does not let us read {} {advice}",
            self.repository
        ))
    }

    /// Asks a token service.
    fn token(&self, challenge: &Challenge) -> Result<Secret, Failed> {
        let realm = challenge.get("realm").unwrap_or_default();
        let shown = redact::url(realm);
        let refuse = |text: String| Failed::Final(self.error(&text));
        let mut url = Url::parse(realm).map_err(|_| {
            refuse(format!(
                "it names {shown:?} as its token service, which is no URL"
            ))
        })?;
        if url.scheme() != "https" && !(self.base.scheme() == "http" && url.scheme() == "http") {
            return Err(refuse(format!(
                "its token service {shown} is not encrypted, credentials are not sent there"
            )));
        }
        let scope = format!("repository:{}:pull", self.repository);
        let scope = challenge.get("scope").unwrap_or(&scope);
        url.query_pairs_mut()
            .extend_pairs(challenge.get("service").map(|service| ("service", service)))
            .append_pair("scope", scope);
        let mut request = self.http.get(&url);
        if let Some(auth) = &self.login {
            request = request.basic_auth(&auth.user, Some(auth.password.expose()));
        }
        let error = |text: &str| self.error(&format!("token service {shown}: {text}"));
        let response = self.http.send(request, error)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return Err(Failed::Final(self.denied()));
            }
            status if status.is_server_error() => {
                return Err(Failed::Again(
                    error(&format!("it answered {status}")).retryable(),
                ));
            }
            status => return Err(Failed::Final(error(&format!("it answered {status}")))),
        }
        let body = self.http.body(response, TOKEN_LIMIT, error)?;
        let answer: Value = serde_json::from_slice(&body)
            .map_err(|_| Failed::Final(error("its answer is not JSON")))?;
        let token = ["token", "access_token"]
            .iter()
            .find_map(|key| answer[key].as_str())
            .ok_or_else(|| Failed::Final(error("its answer holds no token")))?;
        Ok(Secret::new(format!("Bearer {token}")))
    }

    fn error(&self, text: &str) -> Error {
        let text = format!("registry {}: {text}", self.host);
        Error::new(ErrorKind::Source, Stage::Fetch, text)
    }
}
