//! Heartbeats: the API hears at once that we are there, then regularly, and
//! soon after each finished command.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::debug;
use tracing::info;
use tracing::warn;
use uuid::Uuid;
use wrought_wire::heartbeat::Heartbeat;
use wrought_wire::microversion::Microversion;

use crate::api::ApiError;
use crate::api::Client;
use crate::api::Random;
use crate::api::client::Request;
use crate::command::CommandFailure;

/// The microversion of our heartbeat: the one that takes a certificate.
const VERSION: Microversion = Microversion(68);
/// A heartbeat that a finished command calls for keeps this distance from the
/// one before.
const FORCED_GAP: Duration = Duration::from_secs(5);
/// The pause after an error is between one and two of these.
const ERROR_PAUSE: Duration = Duration::from_secs(5);

/// What is sent.
#[derive(Debug, Clone)]
pub struct Beat {
    /// The node.
    pub node: Uuid,
    /// What the body says.
    pub body: Heartbeat,
    /// Silence after which the API gives us up.
    pub timeout: Duration,
    /// Fixed time between heartbeats.
    pub interval: Option<Duration>,
}

/// Sends heartbeats until it is dropped.
#[derive(Debug)]
pub struct Heartbeats {
    client: Arc<Client>,
    beat: Beat,
    random: Random,
    /// Counts finished commands.
    finished: watch::Receiver<u64>,
}

impl Heartbeats {
    /// Heartbeats by this client.
    pub fn new(
        client: Arc<Client>,
        beat: Beat,
        random: Random,
        finished: watch::Receiver<u64>,
    ) -> Self {
        Self {
            client,
            beat,
            random,
            finished,
        }
    }

    /// Runs for ever.
    pub async fn run(mut self) {
        let mut first = true;
        loop {
            self.finished.borrow_and_update();
            let sent = Instant::now();
            let pause = match self.send().await {
                Ok(()) => {
                    if first {
                        info!("heartbeat: the API has heard of us");
                    } else {
                        debug!("heartbeat: sent");
                    }
                    first = false;
                    self.pause()
                }
                Err(error) => {
                    let pause = self.random.between(ERROR_PAUSE, ERROR_PAUSE * 2);
                    let (text, seconds) = (CommandFailure::chain(&error), pause.as_secs_f64());
                    warn!("heartbeat: {text}; again in {seconds:.1} s");
                    pause
                }
            };
            self.wait(sent, pause).await;
        }
    }

    /// Waits for the next time: the pause, or a finished command.
    async fn wait(&mut self, sent: Instant, pause: Duration) {
        let regular = tokio::time::sleep(pause);
        tokio::select! {
            () = regular => {}
            // An error means that no command will ever finish again.
            Ok(()) = self.finished.changed() => {
                tokio::time::sleep_until(sent + FORCED_GAP.min(pause)).await;
            }
        }
    }

    fn pause(&self) -> Duration {
        let timeout = self.beat.timeout;
        self.beat.interval.unwrap_or_else(|| {
            self.random
                .between(timeout.mul_f64(0.3), timeout.mul_f64(0.6))
        })
    }

    async fn send(&self) -> Result<(), ApiError> {
        let version = self.client.version(VERSION).await?;
        let path = format!("/v1/heartbeat/{}", self.beat.node);
        let problem = |problem: String| ApiError::Answer {
            method: Method::POST,
            url: format!("{}{path}", self.client.base_url()),
            problem,
        };
        let mut body = self.beat.body.clone();
        if version < VERSION {
            // Older servers refuse fields that they do not know.
            body.agent_verify_ca = None;
        }
        let body = serde_json::to_vec(&body).map_err(|error| problem(error.to_string()))?;
        let request = Request {
            method: Method::POST,
            path: &path,
            query: &[],
            version,
            body: Some(body),
        };
        self.client.send(&request).await.map(drop)
    }
}
