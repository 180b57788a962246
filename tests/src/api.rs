//! The harness's own small client of the Ironic API.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use reqwest::Method;
use serde_json::Value;
use serde_json::json;

/// The microversion that requests ask for.
const VERSION: &str = "1.92";
/// Largest body that is read.
const LIMIT: usize = 16 << 20;

/// A client with the installation's CA and an account.
#[derive(Debug, Clone)]
pub struct Api {
    http: reqwest::Client,
    base: String,
    account: Option<(String, String)>,
    version: &'static str,
}

/// An answer: the status and the JSON body, null when there is none.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Body.
    pub body: Value,
}

impl Answer {
    /// The error text of an Ironic error body, else the body itself.
    pub fn error_text(&self) -> String {
        let message = &self.body["error_message"];
        // Older clients want a JSON document in a string there.
        match message {
            Value::String(text) => serde_json::from_str::<Value>(text)
                .ok()
                .and_then(|inner| inner["faultstring"].as_str().map(str::to_owned))
                .unwrap_or_else(|| text.clone()),
            Value::Object(inner) => inner
                .get("faultstring")
                .and_then(Value::as_str)
                .map_or_else(|| self.body.to_string(), str::to_owned),
            _ => self.body.to_string(),
        }
    }
}

impl Api {
    /// A client that trusts exactly the CA in the PEM file `ca`.
    pub fn new(base: &str, ca: &Path, account: Option<(String, String)>) -> Result<Self> {
        let pem = std::fs::read(ca).with_context(|| format!("reading the CA {}", ca.display()))?;
        let ca = reqwest::Certificate::from_pem(&pem).context("parsing the CA")?;
        let http = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([ca])
            .connect_timeout(Duration::from_secs(5))
            .timeout(Duration::from_secs(90))
            .build()?;
        Ok(Self {
            http,
            base: base.trim_end_matches('/').to_owned(),
            account,
            version: VERSION,
        })
    }

    /// A client over plain HTTP, without an account.
    pub fn plain(base: &str) -> Result<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(90))
            .build()?;
        Ok(Self {
            http,
            base: base.trim_end_matches('/').to_owned(),
            account: None,
            version: VERSION,
        })
    }

    /// The same client that asks for another microversion.
    pub fn at_version(&self, version: &'static str) -> Self {
        Self {
            version,
            ..self.clone()
        }
    }

    /// The same client for the server at another base URL.
    pub fn at(&self, base: &str) -> Self {
        Self {
            base: base.trim_end_matches('/').to_owned(),
            ..self.clone()
        }
    }

    /// The same client without an account, as the agent is.
    pub fn anonymous(&self) -> Self {
        Self {
            account: None,
            ..self.clone()
        }
    }

    /// Sends a request as it is told to and gives whatever comes back.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer> {
        let text = body.map(Value::to_string);
        self.send_raw(method, path, text).await
    }

    /// The same with a body that need not be JSON.
    pub async fn send_raw(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<Answer> {
        let url = format!("{}{path}", self.base);
        let mut request = self
            .http
            .request(method.clone(), &url)
            .header("X-OpenStack-Ironic-API-Version", self.version)
            .header("Accept", "application/json");
        if let Some((user, password)) = &self.account {
            request = request.basic_auth(user, Some(password));
        }
        if let Some(body) = body {
            request = request
                .header("Content-Type", "application/json")
                .body(body);
        }
        let mut response = request
            .send()
            .await
            .with_context(|| format!("{method} {path}"))?;
        let status = response.status().as_u16();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > LIMIT {
                bail!("the answer to {method} {path} is larger than {LIMIT} bytes");
            }
        }
        let body = match bytes.as_slice() {
            [] => Value::Null,
            bytes => serde_json::from_slice(bytes)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned())),
        };
        Ok(Answer { status, body })
    }

    /// A request that must succeed.
    pub async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let answer = self.send(method.clone(), path, body).await?;
        if !(200..300).contains(&answer.status) {
            bail!(
                "{method} {path} gave {}: {}",
                answer.status,
                answer.error_text()
            );
        }
        Ok(answer.body)
    }

    /// GET that must succeed.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.call(Method::GET, path, None).await
    }

    /// The node.
    pub async fn node(&self, node: &str) -> Result<Value> {
        self.get(&format!("/v1/nodes/{node}")).await
    }

    /// Asks for a provision verb; `extra` is merged into the body.
    pub async fn provision(&self, node: &str, target: &str, extra: Value) -> Result<()> {
        let mut body = json!({"target": target});
        if let (Some(body), Value::Object(extra)) = (body.as_object_mut(), extra) {
            body.extend(extra);
        }
        let path = format!("/v1/nodes/{node}/states/provision");
        self.call(Method::PUT, &path, Some(&body)).await.map(drop)
    }

    /// Changes fields of a node: `(path, value)` pairs, added or replaced.
    pub async fn set(&self, node: &str, fields: &[(&str, Value)]) -> Result<()> {
        let patch: Vec<Value> = fields
            .iter()
            .map(|(path, value)| json!({"op": "add", "path": path, "value": value}))
            .collect();
        let path = format!("/v1/nodes/{node}");
        self.call(Method::PATCH, &path, Some(&Value::Array(patch)))
            .await
            .map(drop)
    }
}
