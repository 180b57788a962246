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
use crate::error::ErrorKind;

/// Prints the failure and gives the exit code.
fn failed(error: &Error, json: bool) -> u8 {
    let exit = error.kind().exit_code();
    if json {
        return told(line(&json::error(error)), exit);
    }
    say(&format!("error: {}", error.chain()));
    exit
}

/// One line on standard output.
fn line(text: &impl std::fmt::Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// The exit code of what was to be printed: `exit` when it was. A closed pipe
/// is the reader's business, anything else lost what was asked for.
fn told(printed: io::Result<()>, exit: u8) -> u8 {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say(&format!("error: the result could not be printed: {error}"));
            if exit == 0 {
                ErrorKind::Target.exit_code()
            } else {
                exit
            }
        }
        _ => exit,
    }
}

/// One line on standard error.
fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_printed_is_not_a_success() {
        let full = || Err(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(told(Ok(()), 0), 0);
        assert_eq!(told(Err(io::ErrorKind::BrokenPipe.into()), 0), 0);
        assert_eq!(told(full(), 0), 74);
        assert_eq!(told(full(), 65), 65);
    }
}
