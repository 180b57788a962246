//! The bodies of `wrought-agent write` and `wrought-agent inspect`: what they
//! print and how they exit. Parsing the command line is the binary's.

mod auth_file;
mod inspect;
mod json;
mod server;
mod write;

use std::io;
use std::io::Write;

pub use inspect::InspectArgs;
pub use inspect::run_inspect;
pub use server::ServerArgs;
pub use write::WriteArgs;
pub use write::run_write;

use crate::error::Error;

/// Prints the failure and gives the exit code.
fn failed(error: &Error, json: bool) -> u8 {
    if json {
        line(&json::error(error));
    } else {
        say(&format!("error: {}", error.chain()));
    }
    error.kind().exit_code()
}

/// One line on standard output; a closed pipe is the reader's business.
fn line(text: &impl std::fmt::Display) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// One line on standard error.
fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// `1.5 GiB` and the like.
fn size(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} bytes")
    } else {
        format!("{value:.1} {}", units[unit])
    }
}
