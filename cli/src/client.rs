//! Speaking the HTTP API: connection options, requests, errors.

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use reqwest::Method;
use reqwest::StatusCode;
use reqwest::Url;
use reqwest::redirect::Policy;
use serde_json::Value;
use wrought_wire::fault::Fault;
use wrought_wire::secret::Secret;

use crate::exit::Failure;
use crate::exit::Kind;
use crate::exit::OrExit;
use crate::exit::Outcome;
use crate::private;

/// Where the API is unless it is said.
const DEFAULT_URL: &str = "https://127.0.0.1:6385";
/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(60);
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// The largest answer that is read.
const ANSWER_LIMIT: usize = 64 * 1024 * 1024;
/// The largest password or certificate file that is read.
const FILE_LIMIT: u64 = 1024 * 1024;
/// Tries of a change that meets a lock or a busy server.
const TRIES: u32 = 5;
/// Rest between them.
const REST: Duration = Duration::from_secs(2);

/// How to reach the API
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Options {
    /// Base URL of the API (or WROUGHT_URL) [default: https://127.0.0.1:6385]
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// Certificate of the CA to trust, PEM (or WROUGHT_CA) [default: the
    /// system's]
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Trust any certificate
    #[arg(long, global = true)]
    insecure: bool,
    /// User for basic authentication
    #[arg(long, global = true, default_value = "admin")]
    user: String,
    /// File with the password on its first line (or WROUGHT_PASSWORD_FILE)
    /// [default: no authentication]
    #[arg(long, global = true, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What the environment says, for what the command line does not.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    pub(crate) url: Option<String>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) password_file: Option<PathBuf>,
}

/// A connection to the API.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    login: Option<(String, Secret)>,
    rest: Duration,
}

impl Client {
    /// Prepares the connection; nothing is sent yet.
    pub(crate) fn new(options: Options, environment: Environment) -> Outcome<Self> {
        let url = options
            .url
            .or(environment.url)
            .unwrap_or_else(|| DEFAULT_URL.to_owned());
        let base = Url::parse(&url)
            .ok()
            .filter(|base| matches!(base.scheme(), "http" | "https") && base.has_host())
            .ok_or_else(|| {
                let text = format!("{url:?} is no URL such as {DEFAULT_URL}");
                Failure::new(Kind::Usage, text)
            })?;
        let mut http = reqwest::Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .timeout(REQUEST)
            .connect_timeout(CONNECT);
        if options.insecure {
            http = http.tls_danger_accept_invalid_certs(true);
        } else if let Some(file) = options.ca.or(environment.ca) {
            let pem = private::read(&file, FILE_LIMIT).or_exit(Kind::Io)?;
            let certs = reqwest::Certificate::from_pem_bundle(pem.as_bytes())
                .with_context(|| format!("reading the CA's certificate {}", file.display()))
                .or_exit(Kind::Data)?;
            if certs.is_empty() {
                let text = format!("{} holds no certificate in PEM form", file.display());
                return Err(Failure::new(Kind::Data, text));
            }
            http = http.tls_certs_only(certs);
        }
        let login = match options.password_file.or(environment.password_file) {
            Some(_) if base.scheme() == "http" && !is_loopback(&base) => {
                let text = format!(
                    "the password would be sent in the clear to {base}: use https, or a loopback \
                     address"
                );
                return Err(Failure::new(Kind::Usage, text));
            }
            Some(file) => Some((options.user, password(&file)?)),
            None => None,
        };
        let http = http
            .build()
            .context("setting up the connection")
            .or_exit(Kind::Internal)?;
        Ok(Self {
            http,
            base,
            login,
            rest: REST,
        })
    }

    /// Gets a resource, such as `["nodes", "n1"]`.
    pub(crate) async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Outcome<Value> {
        self.send(Method::GET, path, query, None).await
    }

    /// Sends a body; the answer is null when there is none.
    pub(crate) async fn change(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
    ) -> Outcome<Value> {
        self.send(method, path, &[], body).await
    }

    /// Sends a JSON patch.
    pub(crate) async fn patch(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        patch: &Value,
    ) -> Outcome<Value> {
        self.send(Method::PATCH, path, query, Some(patch)).await
    }

    async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Outcome<Value> {
        // These would be lost in the URL, and another resource be meant.
        if let Some(segment) = path.iter().find(|s| matches!(**s, "" | "." | "..")) {
            let text = format!("{segment:?} is neither a name nor a UUID");
            return Err(Failure::new(Kind::Usage, text));
        }
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("v1").extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        // A node's lock passes; a second node of the same name does not.
        let patient = method != Method::GET && method != Method::POST;
        let mut tries = if patient { TRIES } else { 1 };
        loop {
            tries -= 1;
            let (status, text) = self.once(method.clone(), url.clone(), body).await?;
            if status.is_success() {
                if text.trim().is_empty() {
                    return Ok(Value::Null);
                }
                return serde_json::from_str(&text)
                    .with_context(|| format!("{method} {} answers no JSON", url.path()))
                    .or_exit(Kind::Unavailable);
            }
            let passes = matches!(
                status,
                StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE
            );
            if tries == 0 || !passes {
                return Err(refused(&method, &url, status, &text));
            }
            tokio::time::sleep(self.rest).await;
        }
    }

    async fn once(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
    ) -> Outcome<(StatusCode, String)> {
        let mut request = self
            .http
            .request(method, url.clone())
            .header("X-OpenStack-Ironic-API-Version", "latest")
            .header("Accept", "application/json");
        if let Some((user, password)) = &self.login {
            request = request.basic_auth(user, Some(password.expose()));
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let mut response = request
            .send()
            .await
            .map_err(|error| self.unreachable(error))?;
        let status = response.status();
        let mut bytes = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| self.unreachable(error))?
        {
            if bytes.len() + chunk.len() > ANSWER_LIMIT {
                let text = format!("the answer to {} is larger than 64 MiB", url.path());
                return Err(Failure::new(Kind::Unavailable, text));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn unreachable(&self, error: reqwest::Error) -> Failure {
        let mut hint = String::new();
        if self.base.scheme() == "https" && is_certificate(&error) {
            hint =
                ": give --ca with the installation's CA (ca/ca.pem in the server's state folder)"
                    .to_owned();
        }
        let error = anyhow::Error::new(error.without_url())
            .context(format!("no answer from {}{hint}", self.base));
        Failure {
            kind: Kind::Unavailable,
            error,
        }
    }
}

/// Whether the connection failed for the server's certificate.
fn is_certificate(error: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return matches!(tls, rustls::Error::InvalidCertificate(_));
    }
    // An I/O error keeps its cause where `source` passes it over.
    let inner = error
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::get_ref);
    match inner {
        Some(inner) => is_certificate(inner),
        None => error.source().is_some_and(is_certificate),
    }
}

fn refused(method: &Method, url: &Url, status: StatusCode, text: &str) -> Failure {
    let told = Fault::message_from_body(text).or_else(|| unauthorised(text));
    let told = told.unwrap_or_else(|| {
        let short: String = text.chars().take(200).collect();
        if short.is_empty() {
            "no reason is given".to_owned()
        } else {
            short
        }
    });
    let hint = match status {
        StatusCode::UNAUTHORIZED => ": give --password-file (and --user)",
        _ => "",
    };
    let kind = if status.is_server_error() {
        Kind::Unavailable
    } else {
        Kind::Data
    };
    let code = status.as_u16();
    Failure::new(
        kind,
        format!("{method} {}: {told} (HTTP {code}){hint}", url.path()),
    )
}

/// What the answer of a failed authentication says.
fn unauthorised(text: &str) -> Option<String> {
    let body: Value = serde_json::from_str(text).ok()?;
    Some(body.pointer("/error/message")?.as_str()?.to_owned())
}

/// Whether a URL stays on this machine.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn password(file: &Path) -> Outcome<Secret> {
    let text = private::read(file, FILE_LIMIT).or_exit(Kind::Io)?;
    let first = text.lines().next().unwrap_or_default();
    if first.is_empty() {
        let text = format!("the password file {} has no first line", file.display());
        return Err(Failure::new(Kind::Data, text));
    }
    Ok(Secret::new(first))
}

#[cfg(test)]
pub(crate) mod tests;
