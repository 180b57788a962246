//! The command line.
//!
//! Exit codes are those of `sysexits.h`: 64 usage, 65 bad input, 69
//! unavailable, 70 internal, 74 input or output.

mod inspect;
mod inventory;
mod run;
mod server;
mod write;

use std::process::ExitCode;

use clap::Parser;
use clap::Subcommand;
use clap::error::ErrorKind;

use crate::init;

/// `EX_USAGE`.
const USAGE: u8 = 64;
/// `EX_UNAVAILABLE`.
const UNAVAILABLE: u8 = 69;

/// Wrought's agent: runs in the ramdisk as PID 1, or writes one image.
#[derive(Debug, Parser)]
#[command(
    name = "wrought-agent",
    version,
    args_conflicts_with_subcommands = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::Run,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Look up the node and serve commands until told to end (the default).
    Run(run::Run),
    /// Write one image to a disk.
    Write(write::Write),
    /// Say what an image is, and whether it would be written.
    Inspect(inspect::Inspect),
    /// Say what this machine is.
    Inventory(inventory::Inventory),
}

/// Everything but PID 1. `arguments` begins with the program's name.
pub fn main(arguments: &[String]) -> ExitCode {
    let rest = arguments.get(1..).unwrap_or_default();
    if let Some(names) = init::modprobe_arguments(rest) {
        let loader = init::modules::Loader::open();
        names.iter().for_each(|name| {
            loader.load(name);
        });
        return ExitCode::SUCCESS;
    }
    if init::is_child_of_init(rest) {
        return run::as_child_of_init();
    }
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Nothing can be done about an output that is closed.
            error.print().ok();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(USAGE),
            };
        }
    };
    match arguments.command.unwrap_or(Command::Run(arguments.run)) {
        Command::Run(run) => run.main(),
        Command::Write(write) => write.main(),
        Command::Inspect(inspect) => inspect.main(),
        Command::Inventory(inventory) => inventory.main(),
    }
}

/// Prints an error with its causes and gives its exit code.
fn fail(error: &dyn std::error::Error, code: u8) -> ExitCode {
    eprintln!("error: {}", crate::command::CommandFailure::chain(error));
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::Parser;

    use super::Arguments;
    use super::Command;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn run_is_the_default() {
        let line = [
            "wrought-agent",
            "--api-url",
            "https://x:6385",
            "--param",
            "a=b",
            "--only-disk",
            "/x",
        ];
        let bare = Arguments::try_parse_from(line).unwrap();
        assert!(bare.command.is_none());
        let named = Arguments::try_parse_from(["wrought-agent", "run", "--listen", "127.0.0.1:0"]);
        assert!(matches!(named.unwrap().command, Some(Command::Run(_))));
        assert!(Arguments::try_parse_from(["wrought-agent", "run", "--param", "novalue"]).is_err());
        let write = [
            "wrought-agent",
            "write",
            "--image",
            "u",
            "--checksum",
            "c",
            "--device",
            "d",
        ];
        let write = Arguments::try_parse_from(write).unwrap();
        assert!(matches!(write.command, Some(Command::Write(_))));
        let all = "write --image oci://h/n@sha256:1 --image u2 --device d --ca a --ca-file b \
                   --user u:p --registry-auth-file f --plain-http-registry --http-proxy p \
                   --https-proxy p --no-proxy n --insecure --allow-md5 --checksum-type sha512 \
                   --verify-after-write --layout partition --memory 64 --disk-format raw --json -q";
        let all = std::iter::once("wrought-agent").chain(all.split_whitespace());
        let all = Arguments::try_parse_from(all).unwrap();
        assert!(!format!("{all:?}").contains("u:p"), "a secret is shown");
        let inspect = ["wrought-agent", "inspect", "u", "--json", "--bearer", "t"];
        assert!(Arguments::try_parse_from(inspect).is_ok());
    }
}
