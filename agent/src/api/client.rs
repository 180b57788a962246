//! HTTP to the API: several addresses, one at a time, bounded answers.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use reqwest::Method;
use reqwest::StatusCode;
use reqwest::Url;
use reqwest::redirect::Policy;
use serde_json::Value;
use tracing::warn;
use wrought_wire::fault::Fault;
use wrought_wire::microversion::HEADER;
use wrought_wire::microversion::Microversion;

use crate::params::Params;
use crate::params::Trust;
use crate::tls::TlsError;
use crate::tls::client_config;

/// The largest answer that is read; a lookup of a large node is about 100 KiB.
const LIMIT: usize = 4 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A request that did not succeed. The URL is in the message, its query never
/// is, since it may hold the token.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// There is no address to ask.
    #[error("no API address was given: expected ipa-api-url=https://HOST:6385")]
    NoUrl,
    /// TLS cannot be set up with what was given.
    #[error("cannot set up TLS for the API")]
    Tls(#[from] TlsError),
    /// The HTTP client cannot be set up.
    #[error("cannot set up the HTTP client")]
    Setup(#[source] reqwest::Error),
    /// No answer.
    #[error("{method} {url}: no answer")]
    Connect {
        /// Method of the request.
        method: Method,
        /// Address without its query.
        url: String,
        /// What went wrong.
        #[source]
        source: reqwest::Error,
    },
    /// An answer that says no.
    #[error("{method} {url}: the API answered {status}: {message}")]
    Status {
        /// Method of the request.
        method: Method,
        /// Address without its query.
        url: String,
        /// The answer's status.
        status: StatusCode,
        /// What the API says.
        message: String,
    },
    /// An answer that cannot be understood.
    #[error("{method} {url}: the answer cannot be used: {problem}")]
    Answer {
        /// Method of the request.
        method: Method,
        /// Address without its query.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl ApiError {
    /// The status, if the API answered with one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(status.as_u16()),
            _ => None,
        }
    }
}

/// One request.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) query: &'a [(&'a str, &'a str)],
    pub(super) version: Microversion,
    pub(super) body: Option<Vec<u8>>,
}

/// A client for all addresses of the API.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    urls: Vec<String>,
    /// Index of the address that answered last.
    current: Mutex<usize>,
    server_version: Mutex<Option<Microversion>>,
    fixed_version: Option<Microversion>,
}

impl Client {
    /// A client as the parameters say. Plain http is accepted with a warning.
    pub fn new(params: &Params) -> Result<Self, ApiError> {
        if params.api_urls.is_empty() {
            return Err(ApiError::NoUrl);
        }
        let encrypted = params.api_urls.iter().any(|url| url.starts_with("https:"));
        for url in params
            .api_urls
            .iter()
            .filter(|url| url.starts_with("http:"))
        {
            warn!(
                "THE API IS REACHED WITHOUT ENCRYPTION ({url}): anyone on the network can read the agent's token and pose as the API"
            );
        }
        if encrypted && params.trust == Trust::Insecure {
            warn!(
                "THE API'S CERTIFICATE IS NOT CHECKED (ipa-insecure=1): anyone on the network can pose as the API"
            );
        }
        // Plain http needs a configuration too, but never uses it.
        let trust = if encrypted {
            &params.trust
        } else {
            &Trust::Insecure
        };
        let http = builder(client_config(trust)?)
            .build()
            .map_err(ApiError::Setup)?;
        Ok(Self {
            http,
            urls: params.api_urls.clone(),
            current: Mutex::new(0),
            server_version: Mutex::new(None),
            fixed_version: params
                .get("ipa-ironic-api-version")
                .and_then(|text| text.parse().ok()),
        })
    }

    /// The address that answered last, or the first to try.
    pub fn base_url(&self) -> &str {
        let current = *self.current.lock().unwrap_or_else(PoisonError::into_inner);
        &self.urls[current % self.urls.len()]
    }

    fn rotate(&self) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = (*current + 1) % self.urls.len();
    }

    /// The lower of the server's highest microversion and `wanted`. The
    /// server is asked once.
    pub async fn version(&self, wanted: Microversion) -> Result<Microversion, ApiError> {
        if let Some(fixed) = self.fixed_version {
            return Ok(fixed);
        }
        let known = *self
            .server_version
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let version = match known {
            Some(version) => version,
            None => {
                let version = self.ask_version().await?;
                *self
                    .server_version
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = Some(version);
                version
            }
        };
        Ok(version.min(wanted))
    }

    async fn ask_version(&self) -> Result<Microversion, ApiError> {
        let root = Request {
            method: Method::GET,
            path: "/",
            query: &[],
            version: Microversion::MIN,
            body: None,
        };
        let body = self.send(&root).await?;
        let problem = |problem: String| ApiError::Answer {
            method: Method::GET,
            url: format!("{}/", self.base_url()),
            problem,
        };
        let document: Value =
            serde_json::from_slice(&body).map_err(|error| problem(error.to_string()))?;
        let text = document
            .pointer("/default_version/version")
            .or_else(|| document.pointer("/version/version"))
            .and_then(Value::as_str)
            .ok_or_else(|| problem("expected default_version.version".to_owned()))?;
        // A newer server than we know still speaks what we know.
        Ok(text.parse().unwrap_or(Microversion::MAX))
    }

    /// Sends a request to the address that answered last; if it gives no
    /// answer, to each of the others once.
    pub(super) async fn send(&self, request: &Request<'_>) -> Result<Vec<u8>, ApiError> {
        let mut result = Err(ApiError::NoUrl);
        for _ in 0..self.urls.len() {
            result = self.send_once(request).await;
            match &result {
                Err(ApiError::Connect { .. }) => self.rotate(),
                _ => return result,
            }
        }
        result
    }

    async fn send_once(&self, request: &Request<'_>) -> Result<Vec<u8>, ApiError> {
        let Request { method, path, .. } = request;
        let url = format!("{}{path}", self.base_url());
        let answer_error = |problem: String| ApiError::Answer {
            method: method.clone(),
            url: url.clone(),
            problem,
        };
        let connect_error = |error: reqwest::Error| ApiError::Connect {
            method: method.clone(),
            url: url.clone(),
            source: error.without_url(),
        };
        let mut address = Url::parse(&url).map_err(|error| answer_error(error.to_string()))?;
        if !request.query.is_empty() {
            address.query_pairs_mut().extend_pairs(request.query);
        }
        let mut builder = self
            .http
            .request(method.clone(), address)
            .header(HEADER, request.version.to_string())
            .header("accept", "application/json");
        if let Some(body) = &request.body {
            builder = builder
                .header("content-type", "application/json")
                .body(body.clone());
        }
        let mut response = builder.send().await.map_err(connect_error)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(connect_error)? {
            if body.len() + chunk.len() > LIMIT {
                return Err(answer_error(format!("it is larger than {LIMIT} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(body);
        }
        let text = String::from_utf8_lossy(&body);
        let mut message = Fault::message_from_body(&text).unwrap_or_else(|| text.into_owned());
        if let Some((end, _)) = message.char_indices().nth(500) {
            message.truncate(end);
        }
        Err(ApiError::Status {
            method: method.clone(),
            url,
            status,
            message,
        })
    }
}

/// The settings that every HTTP client of the agent shares: no redirects, no
/// proxy from the environment, time limits.
pub(crate) fn builder(tls: rustls::ClientConfig) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(REQUEST_TIMEOUT)
        .user_agent(concat!("wrought-agent/", env!("CARGO_PKG_VERSION")))
}
