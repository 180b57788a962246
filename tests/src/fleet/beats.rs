//! A fleet that calls in: every agent at its own moments, spread over its
//! interval, each with a connection of its own for as long as both sides keep
//! it. The server ends connections that have been idle for a minute: agents
//! that call every 10 s keep theirs, those of Ironic's interval make a new
//! one each time.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use anyhow::Result;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::Agent;
use crate::bench::load::Connection;
use crate::bench::load::Target;
use crate::bench::load::request;

/// When an agent calls again.
#[derive(Debug, Clone, Copy)]
pub enum Interval {
    /// After a time drawn anew each time, as Ironic's agent does.
    Between(Duration, Duration),
    /// After this time.
    Every(Duration),
}

impl Interval {
    fn draw(self) -> Duration {
        match self {
            Self::Every(interval) => interval,
            Self::Between(least, most) => least + (most - least).mul_f64(random()),
        }
    }

    /// Calls a second of so many agents.
    pub fn rate(self, agents: usize) -> f64 {
        let mean = match self {
            Self::Every(interval) => interval,
            Self::Between(least, most) => (least + most) / 2,
        };
        agents as f64 / mean.as_secs_f64()
    }
}

/// A number from 0 to 1.
fn random() -> f64 {
    let mut bytes = [0; 4];
    // The operating system's generator does not fail once it is seeded.
    getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

/// What the agents saw.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    /// How long each answer took, milliseconds.
    pub times: Vec<f64>,
    /// Answers other than 202.
    pub refused: u64,
    /// Calls without an answer.
    pub lost: u64,
    /// What the last of them failed with.
    pub why: Option<String>,
    /// Connections that were made.
    pub connected: u64,
}

/// A calling fleet; ends when it is dropped.
#[derive(Debug)]
pub struct Beats {
    agents: JoinSet<()>,
    seen: Arc<Mutex<Seen>>,
}

impl Beats {
    /// Starts to call on the threads of `runtime`; the first calls are spread
    /// over `spread`.
    pub fn start(
        runtime: &Handle,
        target: &Target,
        agents: &[Agent],
        interval: Interval,
        spread: Duration,
    ) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut tasks = JoinSet::new();
        for agent in agents {
            let call = request("POST", &agent.path(), Some(&agent.heartbeat()));
            let mut connection = Connection::new(target);
            let seen = Arc::clone(&seen);
            let calling = async move {
                tokio::time::sleep(spread.mul_f64(random())).await;
                loop {
                    let before = connection.connected;
                    let sent = Instant::now();
                    let answer = connection.exchange(&call).await;
                    note(&seen, sent, &answer, connection.connected - before);
                    tokio::time::sleep(interval.draw()).await;
                }
            };
            tasks.spawn_on(calling, runtime);
        }
        Self {
            agents: tasks,
            seen,
        }
    }

    /// Takes what was seen since it was last taken.
    pub fn take(&self) -> Seen {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the calling and the connections.
    pub async fn stop(mut self) {
        self.agents.shutdown().await;
    }
}

fn note(seen: &Mutex<Seen>, sent: Instant, answer: &Result<u16>, connected: u64) {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.connected += connected;
    match answer {
        Ok(202) => seen.times.push(sent.elapsed().as_secs_f64() * 1e3),
        Ok(status) => {
            tracing::debug!(status, "heartbeat refused");
            seen.refused += 1;
        }
        Err(error) => {
            seen.why = Some(format!("{error:#}"));
            seen.lost += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Interval;

    #[test]
    fn intervals() {
        let (least, most) = (Duration::from_secs(90), Duration::from_secs(180));
        let ironic = Interval::Between(least, most);
        for _ in 0..100 {
            let drawn = ironic.draw();
            assert!(drawn >= least && drawn <= most);
        }
        assert!((ironic.rate(10_000) - 74.07).abs() < 0.01);
        assert_eq!(
            Interval::Every(Duration::from_secs(10)).rate(10_000),
            1000.0
        );
    }
}
