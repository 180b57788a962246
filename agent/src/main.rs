//! The agent binary: PID 1 of the ramdisk, or a command.

use std::process::ExitCode;

/// musl's own allocator makes threads wait for each other.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if std::process::id() == 1 {
        // What the kernel passes as arguments is not meant for us.
        wrought_agent::init::run();
    }
    let arguments: Vec<String> = std::env::args_os()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    wrought_agent::cli::main(&arguments)
}
