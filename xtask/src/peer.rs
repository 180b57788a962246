//! `cargo xtask peer`: a real Ironic beside ours.

use anyhow::Result;

use crate::command::EX_USAGE;
use crate::command::Exit;
use crate::command::cargo;
use crate::command::run;
use crate::harness;
use crate::setup;

/// Builds what is needed and hands over to the harness.
pub(crate) fn main(args: &[String]) -> Result<()> {
    match args.first().map_or("", String::as_str) {
        "record" => {
            setup::main(&[])?;
            setup::ironic::install();
        }
        "show" => setup::main(&[])?,
        other => {
            let text = format!("no task {other:?}: expected record or show");
            return Err(Exit::new(EX_USAGE, text).into());
        }
    }
    run(cargo().args(["build", "--quiet", "-p", "wrought", "-p", "wrought-tests"]))?;
    let mut line = vec!["peer".to_owned()];
    line.extend_from_slice(args);
    harness::start(&line)
}
