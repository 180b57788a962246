//! The command API of an agent: one command at a time, refused from whoever
//! lacks the token or has lost the node's lock.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::body::Bytes;
use axum::extract::Path;
use axum::extract::Query;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::get;
use futures_util::stream;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use super::Machine;
use super::log::Order;
use super::log::Verdict;
use super::machine::Life;
use super::work;
use super::work::Job;
use super::work::Then;

/// Header with the epoch of the sender's lock.
const EPOCH: &str = "x-wrought-lock-epoch";

/// The answer to who is not let in.
type Refused = Box<Response>;

/// A command that was taken.
#[derive(Debug)]
struct Taken {
    id: Uuid,
    name: String,
    job: Job,
    ends: Instant,
}

impl Taken {
    fn runs(&self) -> bool {
        Instant::now() < self.ends
    }

    fn show(&self) -> Value {
        let (status, error, result) = match (self.runs(), &self.job.error) {
            (true, _) => ("RUNNING", &Value::Null, &self.job.progress),
            (false, Some(error)) => ("FAILED", error, &Value::Null),
            (false, None) => ("SUCCEEDED", &Value::Null, &self.job.result),
        };
        json!({
            "id": self.id, "command_name": self.name, "command_params": {},
            "command_status": status, "command_error": error, "command_result": result,
        })
    }
}

#[derive(Debug, Default)]
struct Inner {
    taken: Vec<Taken>,
    epoch: i64,
}

/// Runs the commands of one life.
#[derive(Debug)]
pub(super) struct Runner {
    machine: Machine,
    life: Life,
    token: String,
    inner: Mutex<Inner>,
    ended: Notify,
}

impl Runner {
    pub(super) fn new(machine: Machine, life: Life, token: String) -> Self {
        Self {
            machine,
            life,
            token,
            inner: Mutex::default(),
            ended: Notify::new(),
        }
    }

    /// Completes when a command has ended.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a command or says why not; all of it is logged.
    fn take(self: &Arc<Self>, body: &Value, epoch: Option<i64>) -> Result<Uuid, Refused> {
        let name = body["name"].as_str().unwrap_or_default();
        let step = &body["params"]["step"];
        let step = step.is_object().then(|| {
            let text = |key: &str| step[key].as_str().unwrap_or_default();
            format!("{}.{}", text("interface"), text("step"))
        });
        let mut inner = self.inner();
        let busy = inner.taken.last().is_some_and(Taken::runs);
        let job = work::job(name, &body["params"], &self.machine.habits());
        let verdict = match (&job, epoch) {
            (_, Some(epoch)) if epoch < inner.epoch => Verdict::OldEpoch,
            (None, _) => Verdict::Unknown,
            _ if busy => Verdict::Busy,
            _ => Verdict::Taken,
        };
        self.machine.write(|log| {
            log.order(Order {
                at: Timestamp::now(),
                life: self.life.number,
                epoch,
                name: name.to_owned(),
                step,
                verdict,
            });
        });
        let (Verdict::Taken, Some(job)) = (verdict, job) else {
            return Err(Box::new(refusal(verdict, name)));
        };
        inner.epoch = inner.epoch.max(epoch.unwrap_or_default());
        let id = Uuid::new_v4();
        let (takes, then) = (job.takes, job.then);
        inner.taken.push(Taken {
            id,
            name: name.rsplit('.').next().unwrap_or_default().to_owned(),
            job,
            ends: Instant::now() + takes,
        });
        drop(inner);
        let runner = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(takes).await;
            runner.finish(then).await;
        });
        Ok(id)
    }

    async fn finish(&self, then: Then) {
        if !self.life.is_alive() {
            return;
        }
        match then {
            Then::Beat => self.ended.notify_one(),
            Then::Nothing => {}
            Then::PowerOff => {
                // The answer goes out first.
                tokio::time::sleep(work::LAST_WORDS).await;
                self.machine.power_off_by(&self.life);
            }
            Then::Leave => {
                tokio::time::sleep(work::LAST_WORDS).await;
                self.machine.leave(&self.life);
            }
        }
    }

    fn show(&self, id: Uuid) -> Option<(Value, Option<Instant>)> {
        let inner = self.inner();
        let taken = inner.taken.iter().find(|taken| taken.id == id)?;
        Some((taken.show(), taken.runs().then_some(taken.ends)))
    }

    async fn answer(&self, id: Uuid, wait: bool) -> Response {
        loop {
            match self.show(id) {
                Some((_, Some(ends))) if wait => tokio::time::sleep_until(ends).await,
                Some((shown, _)) => return Json(shown).into_response(),
                None => return fault(StatusCode::NOT_FOUND, "no such command"),
            }
        }
    }
}

/// The routes of an agent.
pub(super) fn router(runner: &Arc<Runner>) -> Router {
    Router::new()
        .route("/v1/commands/", get(list).post(run))
        .route("/v1/commands", get(list).post(run))
        .route("/v1/commands/{id}", get(one))
        .with_state(Arc::clone(runner))
}

#[derive(Debug, Deserialize)]
struct Asked {
    agent_token: Option<String>,
    wait: Option<String>,
}

impl Asked {
    fn waits(&self) -> bool {
        self.wait.as_deref().is_some_and(|wait| wait == "true")
    }

    /// A wrong token is told so; an agent whose life is over breaks off.
    fn admit(&self, runner: &Runner) -> Result<(), Refused> {
        if !runner.life.is_alive() {
            let gone = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
            let broken = stream::iter([Err::<Bytes, _>(gone)]);
            return Err(Box::new(Body::from_stream(broken).into_response()));
        }
        if self.agent_token.as_deref() != Some(&runner.token) {
            let wrong = fault(StatusCode::UNAUTHORIZED, "Token invalid.");
            return Err(Box::new(wrong));
        }
        Ok(())
    }
}

type Shared = State<Arc<Runner>>;

async fn list(State(runner): Shared, Query(asked): Query<Asked>) -> Response {
    if let Err(refused) = asked.admit(&runner) {
        return *refused;
    }
    let commands: Vec<Value> = runner.inner().taken.iter().map(Taken::show).collect();
    Json(json!({"commands": commands})).into_response()
}

async fn one(State(runner): Shared, Path(id): Path<Uuid>, Query(asked): Query<Asked>) -> Response {
    match asked.admit(&runner) {
        Ok(()) => runner.answer(id, asked.waits()).await,
        Err(refused) => *refused,
    }
}

async fn run(
    State(runner): Shared,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    if let Err(refused) = asked.admit(&runner) {
        return *refused;
    }
    let epoch = headers.get(EPOCH).and_then(|value| value.to_str().ok());
    let epoch = epoch.and_then(|text| text.trim().parse().ok());
    match runner.take(&body, epoch) {
        Ok(id) => runner.answer(id, asked.waits()).await,
        Err(refused) => *refused,
    }
}

fn refusal(verdict: Verdict, name: &str) -> Response {
    match verdict {
        Verdict::OldEpoch => fault(
            StatusCode::CONFLICT,
            "Stale lock epoch: another conductor has taken the node over",
        ),
        Verdict::Busy => fault(StatusCode::CONFLICT, "Agent is busy: executing command"),
        Verdict::Taken | Verdict::Unknown => {
            let text = format!("Invalid command: Unknown command: {name}");
            fault(StatusCode::BAD_REQUEST, &text)
        }
    }
}

fn fault(status: StatusCode, text: &str) -> Response {
    let body = json!({"faultcode": "Client", "faultstring": text, "code": status.as_u16()});
    (status, Json(body)).into_response()
}
