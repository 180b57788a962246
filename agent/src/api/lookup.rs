//! `GET /v1/lookup`: who am I?

use std::time::Duration;
use std::time::Instant;

use reqwest::Method;
use serde_json::Value;
use tracing::info;
use tracing::warn;
use wrought_wire::lookup::LookupAnswer;
use wrought_wire::microversion::Microversion;
use wrought_wire::secret::MASK;
use wrought_wire::secret::Secret;

use crate::api::ApiError;
use crate::api::Client;
use crate::api::Random;
use crate::api::client::Request;
use crate::command::CommandFailure;
use crate::net::mac::Mac;
use crate::params::Params;

/// The first microversion that answers what a ramdisk found as a lookup is.
const INSPECTION: Microversion = Microversion(84);
/// The microversion of our lookup, as ironic-python-agent's.
const VERSION: Microversion = Microversion(62);
/// The longest pause between two lookups.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Added pauses after each answer 409: the node is locked.
const LOCKED_PAUSES: [u64; 3] = [5, 10, 30];
/// The shortest token that is accepted.
const TOKEN_LENGTH: usize = 32;

/// A lookup that led nowhere.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// No answer that helps within the time.
    #[error(
        "the API knows no node with the addresses {addresses} after {seconds} s: is the node enrolled with a port for one of them, and is it being deployed, cleaned or inspected?"
    )]
    Timeout {
        /// What we asked for.
        addresses: String,
        /// How long.
        seconds: u64,
        /// The last answer.
        #[source]
        source: ApiError,
    },
    /// The API has handed the token out already.
    #[error(
        "the API has already handed out the token of node {0}: this agent was started outside of the API's control, or another machine has one of its addresses; power the node off and on through the API"
    )]
    TokenTaken(uuid::Uuid),
    /// The token is not one.
    #[error("the token for node {node} has {found} characters, expected at least {TOKEN_LENGTH}")]
    BadToken {
        /// The node.
        node: uuid::Uuid,
        /// Length of what came.
        found: usize,
    },
}

/// How lookups are made.
#[derive(Debug)]
pub struct Lookups<'a> {
    /// The API.
    pub client: &'a Client,
    /// Time limits and the token, if it was made before.
    pub params: &'a Params,
    /// All addresses of this machine.
    pub addresses: &'a [Mac],
    /// For the pauses.
    pub random: Random,
}

impl Lookups<'_> {
    /// Asks until the node is found, then says which token holds.
    pub async fn run(&self) -> Result<(LookupAnswer, Secret), LookupError> {
        let addresses: Vec<String> = self.addresses.iter().map(Mac::to_string).collect();
        let addresses = addresses.join(",");
        info!("lookup: asking {} for {addresses}", self.client.base_url());
        let answer = self.ask_until(&addresses).await?;
        self.accept(answer)
    }

    /// Says which token holds, for an answer that came in another way.
    pub fn accept(&self, answer: LookupAnswer) -> Result<(LookupAnswer, Secret), LookupError> {
        let token = self.choose_token(&answer)?;
        Ok((answer, token))
    }

    async fn ask_until(&self, addresses: &str) -> Result<LookupAnswer, LookupError> {
        let start = Instant::now();
        let deadline = start + self.params.lookup_timeout;
        let mut conflicts = LOCKED_PAUSES.iter().copied();
        let mut last_conflict = 0;
        let mut longest = self.params.lookup_interval;
        loop {
            let error = match self.client.lookup(addresses).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let mut pause = self.random.between(self.params.lookup_interval, longest);
            longest = (longest * 2).min(LONGEST_PAUSE.max(self.params.lookup_interval));
            if error.status() == Some(409) {
                last_conflict = conflicts.next().unwrap_or(last_conflict);
                pause += Duration::from_secs(last_conflict);
            }
            if Instant::now() + pause >= deadline {
                let (addresses, seconds) = (addresses.to_owned(), start.elapsed().as_secs());
                return Err(LookupError::Timeout {
                    addresses,
                    seconds,
                    source: error,
                });
            }
            warn!(
                "lookup: {}; again in {:.1} s",
                CommandFailure::chain(&error),
                pause.as_secs_f64()
            );
            tokio::time::sleep(pause).await;
        }
    }

    /// A token from before the boot stays; else the answer must hold one.
    fn choose_token(&self, answer: &LookupAnswer) -> Result<Secret, LookupError> {
        if let Some(token) = &self.params.agent_token {
            return Ok(token.clone());
        }
        let node = answer.node.uuid;
        match &answer.config.agent_token {
            Some(token) if token.expose() == MASK => Err(LookupError::TokenTaken(node)),
            None => Err(LookupError::TokenTaken(node)),
            Some(token) if token.expose().len() < TOKEN_LENGTH => Err(LookupError::BadToken {
                node,
                found: token.expose().len(),
            }),
            Some(token) => Ok(token.clone()),
        }
    }
}

impl Client {
    /// Asks once which node has one of these addresses, a comma list.
    pub(crate) async fn lookup(&self, addresses: &str) -> Result<LookupAnswer, ApiError> {
        let version = self.version(VERSION).await?;
        let request = Request {
            method: Method::GET,
            path: "/v1/lookup",
            query: &[("addresses", addresses)],
            version,
            body: None,
        };
        let body = self.send(&request).await?;
        serde_json::from_slice(&body).map_err(|error| ApiError::Answer {
            method: Method::GET,
            url: format!("{}/v1/lookup", self.base_url()),
            problem: error.to_string(),
        })
    }

    /// Sends what was found about this machine to `path`. An answer from
    /// before microversion 1.84 is no lookup's: none.
    pub(crate) async fn continue_inspection(
        &self,
        path: &str,
        found: &Value,
    ) -> Result<Option<LookupAnswer>, ApiError> {
        let version = self.version(INSPECTION).await?;
        let request = Request {
            method: Method::POST,
            path,
            query: &[],
            version,
            body: Some(found.to_string().into_bytes()),
        };
        let body = self.send(&request).await?;
        Ok(serde_json::from_slice(&body).ok())
    }
}
