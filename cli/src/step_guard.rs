//! `wrought step-guard`: the leader of a step plug-in's process group. The
//! conductor that started it holds the other end of its standard input; when
//! that ends, because the call has ended or the conductor has died, the guard
//! kills the group, itself included.

use std::io;

use nix::sys::signal::Signal;
use nix::sys::signal::killpg;
use nix::unistd::getpgrp;
use nix::unistd::getpid;

use crate::exit::Failure;
use crate::exit::Kind;
use crate::exit::OrExit;
use crate::exit::Outcome;

/// Waits, then kills.
pub(crate) fn run() -> Outcome {
    let group = getpgrp();
    if group != getpid() {
        let text = "step-guard is started by conductors, as leader of a process group";
        return Err(Failure::new(Kind::Usage, text));
    }
    // An error says the same as the end: nobody is there any more.
    io::copy(&mut io::stdin().lock(), &mut io::sink()).ok();
    killpg(group, Signal::SIGKILL).or_exit(Kind::Internal)
}
