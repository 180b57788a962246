//! The last act.

use std::convert::Infallible;
use std::time::Duration;

use nix::sys::reboot::RebootMode;
use nix::sys::reboot::reboot;
use tracing::error;
use tracing::info;

use crate::shutdown::Goal;

/// Flushes everything and restarts or switches off. Never comes back: where
/// the kernel cannot do it, the machine waits for its BMC.
pub fn end(goal: Goal) -> ! {
    info!("init: writing out all data");
    nix::unistd::sync();
    let (text, mode) = match goal {
        Goal::Reboot => ("restarting the machine", RebootMode::RB_AUTOBOOT),
        Goal::PowerOff => ("switching the machine off", RebootMode::RB_POWER_OFF),
        Goal::Stay | Goal::Lockdown => rest(),
    };
    info!("init: {text}");
    let result: nix::Result<Infallible> = reboot(mode);
    let Err(problem) = result;
    error!("init: {text} is not possible: {problem}; waiting for the BMC");
    rest()
}

fn rest() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}
