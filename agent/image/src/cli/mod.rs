//! The bodies of `wrought-agent write` and `wrought-agent inspect`: what they
//! print and how they exit. Parsing the command line is the binary's.

mod inspect;
mod json;
mod write;

use std::io;
use std::io::Write;

pub use inspect::InspectArgs;
pub use inspect::run_inspect;
pub use write::WriteArgs;
pub use write::run_write;

use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::request::HttpOptions;

/// How image servers are to be trusted.
#[derive(Debug, Clone, Default)]
pub struct TrustArgs {
    /// PEM files with authorities, beside the system's.
    pub ca_files: Vec<std::path::PathBuf>,
    /// Accept any certificate.
    pub insecure: bool,
}

impl TrustArgs {
    fn options(&self) -> Result<HttpOptions, Error> {
        let mut options = HttpOptions {
            insecure: self.insecure,
            ..HttpOptions::default()
        };
        for path in &self.ca_files {
            let pem = std::fs::read(path).map_err(|error| {
                let text = format!("read the CA file {}", path.display());
                Error::new(ErrorKind::Request, Stage::Check, text).caused_by(error)
            })?;
            options.extra_ca_pem.push(pem);
        }
        Ok(options)
    }
}

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
