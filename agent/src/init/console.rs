//! The console of PID 1.

use std::fs::OpenOptions;
use std::io;

/// Makes `/dev/console` standard input, output and error. An initramfs
/// without that node starts us with none of the three.
pub(super) fn open() -> io::Result<()> {
    let console = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/console")?;
    nix::unistd::dup2_stdin(&console)?;
    nix::unistd::dup2_stdout(&console)?;
    nix::unistd::dup2_stderr(&console)?;
    Ok(())
}
