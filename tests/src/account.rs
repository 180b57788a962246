//! The live account of a run: lines for people, or JSON lines.

use std::time::Duration;
use std::time::Instant;

use serde_json::Value;
use serde_json::json;

/// Who is told, and how.
#[derive(Debug, Clone)]
pub struct Account {
    json: bool,
    started: Instant,
}

impl Account {
    /// An account that begins now.
    pub fn new(json: bool) -> Self {
        Self {
            json,
            started: Instant::now(),
        }
    }

    /// Whether it speaks JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Time since its beginning.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Tells what goes on.
    pub fn say(&self, text: &str) {
        self.tell(text, json!({"event": "note", "text": text}));
    }

    /// Tells the same in words and as an object.
    pub fn tell(&self, text: &str, mut object: Value) {
        let seconds = self.started.elapsed().as_secs_f64();
        if self.json {
            object["seconds"] = json!((seconds * 10.0).round() / 10.0);
            println!("{object}");
        } else {
            println!("{seconds:7.1}  {text}");
        }
    }

    /// A line without a time, for people alone.
    pub fn plain(&self, text: &str) {
        if !self.json {
            println!("{text}");
        }
    }
}
