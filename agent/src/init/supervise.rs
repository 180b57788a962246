//! PID 1 itself.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::panic::catch_unwind;
use std::process::Child;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::wait::WaitStatus;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use tracing::error;
use tracing::info;
use tracing::warn;

use super::console;
use super::login;
use super::modules;
use super::mounts;
use super::power;
use super::uevent;
use crate::logging;
use crate::logging::Clock;
use crate::logging::Ring;
use crate::shutdown::Goal;

/// Tells the child that it is the one, see [`is_child_of_init`].
const CHILD_FLAG: &str = "--child-of-init";
/// Where programs that were added to the ramdisk lie.
pub(super) const PROGRAMS: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// Time to read what went wrong, on a screen or a serial log.
const READING_TIME: Duration = Duration::from_secs(30);
/// Where PID 1's own lines go for the collected logs.
const LOG_DIR: &str = "/run/wrought";

/// Whether this process is the agent that PID 1 started.
pub fn is_child_of_init(arguments: &[String]) -> bool {
    arguments.iter().any(|argument| argument == CHILD_FLAG) && nix::unistd::getppid().as_raw() == 1
}

/// The whole of PID 1. Whatever happens, the machine restarts in the end and
/// the kernel does not panic.
pub fn run() -> ! {
    let problems = mounts::mount_first();
    let no_console = console::open().err();
    let ring = logging::init(Clock::Boot, false);
    std::panic::set_hook(Box::new(|panic| error!("init: {panic}")));
    info!("init: wrought {} as PID 1", env!("CARGO_PKG_VERSION"));
    for problem in problems {
        warn!("init: {problem}");
    }
    if let Some(error) = no_console {
        warn!("init: /dev/console cannot be opened: {error}");
    }
    match catch_unwind(|| supervise(&ring)) {
        Ok(Err(error)) => error!("init: {error}"),
        Err(_) => error!("init: ended by a panic"),
    }
    error!(
        "init: restarting the machine in {} s",
        READING_TIME.as_secs()
    );
    std::thread::sleep(READING_TIME);
    power::end(Goal::Reboot)
}

/// Goes on until the child ends.
fn supervise(ring: &Arc<Ring>) -> io::Result<Infallible> {
    mounts::kernel_settings();
    fs::create_dir_all(LOG_DIR)?;
    // The child waits by itself for the hardware that it needs.
    let child = start_agent()?;
    let ring = Arc::clone(ring);
    std::thread::Builder::new()
        .name("modules".to_owned())
        .spawn(move || load_modules(&ring))?;
    login::start()?;
    let status = wait_for(&child)?;
    Err(io::Error::other(format!(
        "the agent ended without being told to: {status:?}"
    )))
}

fn start_agent() -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .args(["run", CHILD_FLAG])
        .env("PATH", PROGRAMS)
        .spawn()
}

/// Loads modules for everything that is there, then for everything that
/// comes.
fn load_modules(ring: &Ring) {
    // Listening begins before looking, so that nothing is missed in between.
    let events = uevent::Listener::open();
    let loader = modules::Loader::open();
    loader.load_always();
    mounts::mount_efivars();
    loader.load_for_present_hardware();
    save_log(ring);
    let events = match events {
        Ok(events) => events,
        Err(error) => {
            warn!("init: hardware that comes later goes unnoticed: {error}");
            return;
        }
    };
    loop {
        match events.next_modalias() {
            Ok(modalias) => {
                if loader.load_for(&modalias) {
                    save_log(ring);
                }
            }
            Err(error) => {
                // Events were lost: look at everything again.
                warn!("init: {error}");
                std::thread::sleep(Duration::from_millis(200));
                loader.load_for_present_hardware();
            }
        }
    }
}

fn save_log(ring: &Ring) {
    if let Err(error) = fs::write(format!("{LOG_DIR}/init.log"), ring.text()) {
        warn!("init: {LOG_DIR}/init.log cannot be written: {error}");
    }
}

/// Collects every orphan until the child itself has ended. Children of the
/// agent are the agent's own business; only what they leave behind comes to
/// PID 1.
fn wait_for(child: &Child) -> io::Result<WaitStatus> {
    let child = i32::try_from(child.id()).map_err(io::Error::other)?;
    loop {
        match waitpid(None, None) {
            Ok(status) if status.pid() == Some(Pid::from_raw(child)) => return Ok(status),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
