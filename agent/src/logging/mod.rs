//! What the agent says: readable lines with the elapsed time on the console,
//! and the last of them in memory for `log.collect_system_logs`.
//!
//! `[   12.345] lookup: asking https://192.0.2.1:6385 for 52:54:00:12:34:56`
//!
//! As PID 1 the time counts from the start of the kernel, like the kernel's
//! own lines; otherwise from the start of the process. Only our own events are
//! shown below the level of a warning, so that no library prints a URL with
//! the token.

mod ring;

use std::fmt;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tracing::Event;
use tracing::Level;
use tracing::Metadata;
use tracing::Subscriber;
use tracing::field::Field;
use tracing::field::Visit;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::layer::SubscriberExt;

pub use ring::Ring;

/// Writes each event to standard error and to the ring.
struct Console {
    ring: Arc<Ring>,
    clock: Clock,
    debug: AtomicBool,
}

/// Where the elapsed time counts from.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// The start of the kernel.
    Boot,
    /// This moment.
    Since(Instant),
}

impl Clock {
    fn seconds(self) -> f64 {
        match self {
            Self::Boot => crate::system::since_boot().as_secs_f64(),
            Self::Since(start) => start.elapsed().as_secs_f64(),
        }
    }
}

/// Sends everything that is said from now on to the console and the ring
/// that is given back. Only the first call in a process has an effect.
pub fn init(clock: Clock, debug: bool) -> Arc<Ring> {
    let ring = Arc::new(Ring::default());
    let console = Console {
        ring: Arc::clone(&ring),
        clock,
        debug: AtomicBool::new(debug),
    };
    let subscriber = tracing_subscriber::registry().with(console);
    // An error means that a subscriber is there already, as in tests.
    tracing::subscriber::set_global_default(subscriber).ok();
    ring
}

impl Console {
    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let ours = metadata.target().starts_with("wrought");
        let most = match (ours, self.debug.load(Ordering::Relaxed)) {
            (true, true) => Level::DEBUG,
            (true, false) => Level::INFO,
            (false, _) => Level::WARN,
        };
        *metadata.level() <= most
    }
}

impl<S: Subscriber> Layer<S> for Console {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.wants(metadata)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = format!("[{:12.6}] ", self.clock.seconds());
        match *event.metadata().level() {
            Level::ERROR => line.push_str("ERROR "),
            Level::WARN => line.push_str("WARNING "),
            _ => {}
        }
        event.record(&mut Line(&mut line));
        line.push('\n');
        // A console that cannot be written to must not stop the agent.
        std::io::stderr().write_all(line.as_bytes()).ok();
        self.ring.push(&line);
    }
}

/// Writes the message and then the fields as `key=value`.
struct Line<'a>(&'a mut String);

impl Line<'_> {
    fn field(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        match field.name() {
            "message" => self.0.write_fmt(value).ok(),
            name => write!(self.0, " {name}={value}").ok(),
        };
    }
}

impl Visit for Line<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.field(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.field(field, format_args!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use tracing_subscriber::layer::SubscriberExt;

    use super::Clock;
    use super::Console;
    use super::Ring;

    #[test]
    fn lines_have_a_time_and_libraries_are_quiet() {
        let ring = Arc::new(Ring::default());
        let console = Console {
            ring: Arc::clone(&ring),
            clock: Clock::Since(Instant::now()),
            debug: AtomicBool::new(false),
        };
        let subscriber = tracing_subscriber::registry().with(console);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "wrought_agent::x", nic = "eth0", "network: {}", "up");
            tracing::debug!(target: "wrought_agent::x", "hidden");
            tracing::info!(target: "hyper", "hidden https://x/?agent_token=1");
            tracing::warn!(target: "hyper", "shown");
        });
        let text = ring.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with("[    0.") && lines[0].ends_with("] network: up nic=eth0"));
        assert!(lines[1].ends_with("] WARNING shown"));
    }
}
