//! The conductor's half of the agent's command API.

use std::time::Duration;

use reqwest::Method;
use reqwest::StatusCode;
use reqwest::Url;
use serde::de::DeserializeOwned;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_wire::EPOCH_HEADER;
use wrought_wire::command::CommandError;
use wrought_wire::command::CommandList;
use wrought_wire::command::CommandRequest;
use wrought_wire::command::CommandResult;
use wrought_wire::command::CommandStatus;
use wrought_wire::secret::Secret;

pub mod error;
pub mod pin;
pub(crate) mod view;

pub use error::Error;

use pin::Mismatch;

/// Longest answer that is read: a list of commands with their results.
const MAX_ANSWER: usize = 16 << 20;
/// Attempts when nothing answers.
const ATTEMPTS: u32 = 3;
/// Time for one request.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Time for a connection to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Talks to one agent.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    shown: String,
    token: Secret,
    epoch: i64,
    mismatch: Option<Mismatch>,
    retry_delay: Duration,
}

impl Client {
    /// A client for the agent at `url` that showed the certificate `pem` and
    /// holds `token`; `epoch` is the lease's, so that the agent refuses those
    /// who lost theirs.
    pub fn new(url: &str, pem: Option<&str>, token: Secret, epoch: i64) -> Result<Self, Error> {
        let bad = |reason: String| Error::BadUrl {
            url: url.to_owned(),
            reason,
        };
        let mut base = Url::parse(url).map_err(|error| bad(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(bad("expected http:// or https:// with a host".to_owned()));
        }
        // Both `https://host:9999` and `https://host:9999/v1` are in use.
        let path = base
            .path()
            .trim_end_matches('/')
            .trim_end_matches("/v1")
            .to_owned();
        base.set_path(&path);
        base.set_query(None);
        base.set_fragment(None);
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT);
        let mut mismatch = None;
        if base.scheme() == "https" {
            let pem = pem.ok_or_else(|| bad("https without a certificate to pin".to_owned()))?;
            let (tls, flag) = pin::pinned(pem)?;
            mismatch = Some(flag);
            builder = builder.tls_backend_preconfigured(tls);
        } else {
            builder = builder.tls_backend_preconfigured(pin::nobody()?);
        }
        let http = builder
            .build()
            .map_err(|error| bad(error.without_url().to_string()))?;
        let shown = base.as_str().trim_end_matches('/').to_owned();
        let retry_delay = Duration::from_secs(1);
        Ok(Self {
            http,
            base,
            shown,
            token,
            epoch,
            mismatch,
            retry_delay,
        })
    }

    /// Starts or runs a command. `wait`: the answer comes when it has ended.
    pub async fn run(
        &self,
        name: &str,
        params: Map<String, Value>,
        wait: bool,
    ) -> Result<CommandResult, Error> {
        let body = CommandRequest {
            name: name.to_owned(),
            params,
        };
        let query = [("wait", if wait { "true" } else { "false" })];
        let result: CommandResult = self
            .call(name, Method::POST, "v1/commands/", &query, Some(&body))
            .await?;
        if wait {
            return finished(name, result);
        }
        Ok(result)
    }

    /// The commands of this agent's life, oldest first.
    pub async fn commands(&self) -> Result<Vec<CommandResult>, Error> {
        let list: CommandList = self
            .call::<(), _>("commands", Method::GET, "v1/commands/", &[], None)
            .await?;
        Ok(list.commands)
    }

    /// Waits until a command has ended, at most for `limit`.
    pub async fn wait_for(
        &self,
        name: &str,
        id: Uuid,
        every: Duration,
        limit: Duration,
    ) -> Result<CommandResult, Error> {
        let path = format!("v1/commands/{id}");
        let started = tokio::time::Instant::now();
        loop {
            let result: CommandResult = self
                .call::<(), _>(name, Method::GET, &path, &[], None)
                .await?;
            if result.command_status != CommandStatus::Running {
                return finished(name, result);
            }
            if started.elapsed() > limit {
                let details = format!("it still runs after {} s", limit.as_secs());
                return Err(Error::Failed {
                    command: name.to_owned(),
                    details,
                });
            }
            tokio::time::sleep(every).await;
        }
    }

    async fn call<B: serde::Serialize, T: DeserializeOwned>(
        &self,
        command: &str,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&B>,
    ) -> Result<T, Error> {
        let mut attempt = 1;
        loop {
            match self
                .call_once(command, method.clone(), path, query, body)
                .await
            {
                // Only a connection that never came about is tried again: the
                // agent has not seen the request.
                Err(Error::Connect { source, .. }) if source.is_connect() && attempt < ATTEMPTS => {
                    attempt += 1;
                    tokio::time::sleep(self.retry_delay).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn call_once<B: serde::Serialize, T: DeserializeOwned>(
        &self,
        command: &str,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&B>,
    ) -> Result<T, Error> {
        let url = || self.shown.clone();
        let mut full = self.base.clone();
        full.set_path(&format!(
            "{}/{path}",
            self.base.path().trim_end_matches('/')
        ));
        full.query_pairs_mut()
            .extend_pairs(query)
            .append_pair("agent_token", self.token.expose());
        let mut request = self.http.request(method, full);
        if let Some(body) = body {
            // Only commands are fenced: a look does no harm whoever has the lock.
            request = request.header(EPOCH_HEADER, self.epoch).json(body);
        }
        // The URL in the library's error carries the token.
        let connect = |source: reqwest::Error| {
            if self.mismatch.as_ref().is_some_and(Mismatch::take) {
                return Error::OtherCertificate { url: url() };
            }
            Error::Connect {
                url: url(),
                source: source.without_url(),
            }
        };
        let mut answer = request.send().await.map_err(connect)?;
        let status = answer.status();
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(connect)? {
            if bytes.len() + chunk.len() > MAX_ANSWER {
                let command = command.to_owned();
                return Err(Error::TooLong {
                    url: url(),
                    command,
                    limit: MAX_ANSWER,
                });
            }
            bytes.extend_from_slice(&chunk);
        }
        if status.is_success() {
            let command = command.to_owned();
            return serde_json::from_slice(&bytes).map_err(|source| Error::Malformed {
                url: url(),
                command,
                source,
            });
        }
        let message = faultstring(&bytes);
        Err(match status {
            StatusCode::UNAUTHORIZED => Error::Token { url: url() },
            StatusCode::CONFLICT => Error::Busy {
                url: url(),
                message,
            },
            _ => Error::Refused {
                url: url(),
                command: command.to_owned(),
                status: status.as_u16(),
                message,
            },
        })
    }
}

/// A command that has ended: its result, or its error.
pub fn finished(name: &str, result: CommandResult) -> Result<CommandResult, Error> {
    if result.command_status == CommandStatus::Failed {
        return Err(Error::Failed {
            command: name.to_owned(),
            details: story(result.command_error.as_ref()),
        });
    }
    Ok(result)
}

/// What a failed command says of itself, in one line.
pub fn story(error: Option<&CommandError>) -> String {
    let Some(error) = error else {
        return "no reason given".to_owned();
    };
    if error.details.is_empty() || error.details == error.message {
        return format!("{}: {}", error.kind, error.message);
    }
    format!("{}: {}: {}", error.kind, error.message, error.details)
}

fn faultstring(body: &[u8]) -> String {
    let known = serde_json::from_slice::<Value>(body)
        .ok()
        .and_then(|value| Some(value.get("faultstring")?.as_str()?.to_owned()));
    known.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(body);
        text.chars().filter(|c| !c.is_control()).take(300).collect()
    })
}
