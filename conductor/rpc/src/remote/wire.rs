//! One call to one conductor over HTTPS.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use rustls::ClientConfig;
use serde_json::Map;
use serde_json::Value;

use crate::Error;
use crate::jsonrpc;
use crate::server::LIMIT;

/// Time for a connection with its handshake to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an unused connection is kept: shorter than the server does, so
/// that none is used while the other end closes it.
const IDLE: Duration = Duration::from_secs(30);
/// Unused connections to one conductor.
const KEPT: usize = 64;

/// Why a call has no result.
#[derive(Debug)]
pub(super) enum Miss {
    /// It was never sent.
    Unreached(String),
    /// It was sent; whether it was carried out is not known.
    Lost(String),
    /// The conductor's own error, or an answer that is none.
    Refused(Error),
}

/// The client side of all connections.
#[derive(Debug)]
pub(super) struct Wire {
    http: reqwest::Client,
    next: AtomicU64,
}

impl Wire {
    /// `tls` shows this process's certificate and trusts the installation's
    /// CA alone; a call may take `timeout`.
    pub(super) fn new(tls: ClientConfig, timeout: Duration) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .https_only(true)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .timeout(timeout)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(KEPT)
            .build()?;
        Ok(Self {
            http,
            next: AtomicU64::new(1),
        })
    }

    /// Calls a method of the conductor at `url`.
    pub(super) async fn call(
        &self,
        url: Url,
        method: &str,
        params: &Map<String, Value>,
    ) -> Result<Value, Miss> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let request = self
            .http
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .body(jsonrpc::write(id, method, params));
        let answer = request.send().await.map_err(missed)?;
        let status = answer.status();
        if status != StatusCode::OK {
            return Err(Miss::Lost(format!("it answered with HTTP {status}")));
        }
        jsonrpc::outcome(id, &bounded(answer).await?).map_err(Miss::Refused)
    }
}

/// What a failed exchange means: without a connection nothing was sent.
fn missed(error: reqwest::Error) -> Miss {
    let unreached = error.is_connect();
    let text = chain(&error.without_url());
    match unreached {
        true => Miss::Unreached(text),
        false => Miss::Lost(text),
    }
}

/// Reads an answer of at most [`LIMIT`] bytes.
async fn bounded(mut answer: reqwest::Response) -> Result<Vec<u8>, Miss> {
    let mut bytes = Vec::new();
    loop {
        match answer.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() <= LIMIT => {
                bytes.extend_from_slice(&chunk);
            }
            Ok(Some(_)) => {
                let text = format!("its answer is larger than {LIMIT} bytes");
                return Err(Miss::Lost(text));
            }
            Ok(None) => return Ok(bytes),
            Err(error) => return Err(missed(error)),
        }
    }
}

/// The error with what is behind it, in one line.
fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
