//! A client that sends exactly what a script says and keeps all of the answer.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use reqwest::Method;
use serde_json::Value;

use super::script::Ask;

/// Largest body that is read.
const LIMIT: usize = 8 << 20;

/// The client of one server.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Header names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body as text.
    pub text: String,
}

impl Answer {
    /// The body as JSON; null where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }
}

impl Client {
    /// A client over plain HTTP.
    pub fn new(base: &str) -> Result<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_secs(60))
            .build()?;
        Ok(Self {
            http,
            base: base.to_owned(),
        })
    }

    /// The start of every URL.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Sends one request.
    pub async fn ask(&self, ask: &Ask) -> Result<Answer> {
        let what = || format!("{} {}", ask.method, ask.path);
        let method: Method = ask.method.parse().with_context(what)?;
        let mut request = self
            .http
            .request(method, format!("{}{}", self.base, ask.path))
            .header("Accept", "application/json");
        if let Some(version) = &ask.version {
            request = request.header("X-OpenStack-Ironic-API-Version", version);
        }
        for (name, value) in &ask.headers {
            request = request.header(name, value);
        }
        if let Some(body) = &ask.body {
            request = request
                .header("Content-Type", "application/json")
                .body(body.clone());
        }
        // A server that fails inside may close the connection under the next
        // request.
        let again = request.try_clone().filter(|_| ask.method == "GET");
        let mut response = match (request.send().await, again) {
            (Err(_), Some(again)) => again.send().await,
            (sent, _) => sent,
        }
        .with_context(what)?;
        let status = response.status().as_u16();
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.as_str().to_owned(), value)
            })
            .collect();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.with_context(what)? {
            bytes.extend_from_slice(&chunk);
            ensure!(bytes.len() <= LIMIT, "{}: more than {LIMIT} bytes", what());
        }
        Ok(Answer {
            status,
            headers,
            text: String::from_utf8_lossy(&bytes).into_owned(),
        })
    }
}
