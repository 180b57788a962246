//! `cargo xtask demo`: a bare machine to a running OS, before one's eyes.

use anyhow::Result;

use crate::harness;
use crate::setup;

/// Sets up, builds, and hands all options to the harness.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let image = match args.iter().position(|arg| arg == "--image") {
        Some(at) => args.get(at + 1).map_or("debian", String::as_str),
        None => "debian",
    };
    setup::main(&[])?;
    harness::prepare(&[image])?;
    let mut line = vec!["demo".to_owned()];
    line.extend_from_slice(args);
    harness::start(&line)
}
