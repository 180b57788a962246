//! Logins, in a ramdisk that was built with them (`--rescue`): nobody can log in
//! before the agent has put the password of `rescue.finalize_rescue` there. Then
//! the account `rescue` has it, on all consoles and by SSH.
//!
//! Parameter `wrought-debug-shell=DEVICE` opens a shell at once, without any
//! password, on a console such as `ttyS0` or `tty2`. A ramdisk without a shell
//! has nothing to open.

use std::fs;
use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nix::mount::MsFlags;
use nix::mount::mount;
use tracing::info;
use tracing::warn;

use super::banner;
use crate::ext::rescue;
use crate::params::Words;

/// The shell and everything around it.
const BUSYBOX: [&str; 2] = ["/bin/busybox", "/usr/bin/busybox"];
/// The SSH server.
const SSH: [&str; 2] = ["/usr/sbin/dropbear", "/sbin/dropbear"];
/// Folders of the links to [`BUSYBOX`].
const FOLDERS: [&str; 4] = ["/bin", "/sbin", "/usr/bin", "/usr/sbin"];
/// Where SSH keeps its keys, made anew in each boot.
const SSH_KEYS: &str = "/etc/dropbear";
const ACCOUNT: &str = "rescue";
const SHELL_PARAM: &str = "wrought-debug-shell";
/// How often it is looked for the password.
const LOOK: Duration = Duration::from_secs(1);
/// Between a login's end and the next prompt.
const PAUSE: Duration = Duration::from_secs(2);
/// The kernel command line is longer nowhere.
const LINE: usize = 64 * 1024;

/// Starts waiting, where this ramdisk has logins. For PID 1, which collects what
/// is started here.
pub(super) fn start() -> io::Result<()> {
    if !Path::new("/").join(rescue::FOLDER).is_dir() {
        return Ok(());
    }
    std::thread::Builder::new()
        .name("login".to_owned())
        .spawn(|| {
            if let Err(error) = run() {
                warn!("login: {error}; nobody can log in");
            }
        })
        .map(drop)
}

fn run() -> io::Result<()> {
    let busybox = first(&BUSYBOX)?;
    for folder in FOLDERS {
        fs::create_dir_all(folder)?;
    }
    let status = Command::new(busybox).args(["--install", "-s"]).status();
    // PID 1 may have collected it: then there is no status.
    if let Ok(status) = status
        && !status.success()
    {
        warn!("login: the links to {busybox} are not all there: {status}");
    }
    let mut line = fs::read_to_string("/proc/cmdline")?;
    line.truncate(LINE);
    if let Some(device) = Words::from_cmdline(&line).get(SHELL_PARAM).and_then(device) {
        warn!("login: a shell without a password is open on {device}");
        keep(busybox, vec!["getty", "-n", "-l", "/bin/sh"], device)?;
    }
    let password = Path::new("/").join(rescue::FOLDER).join(rescue::PASSWORD);
    info!("login: waiting for the password of {ACCOUNT}");
    let hash = loop {
        match fs::read_to_string(&password) {
            Ok(hash) => break hash,
            Err(error) if error.kind() == io::ErrorKind::NotFound => std::thread::sleep(LOOK),
            Err(error) => return Err(error),
        }
    };
    set_password(Path::new("/etc/shadow"), hash.trim())?;
    for console in banner::consoles(&line) {
        let name = console.file_name().and_then(|name| name.to_str());
        // The screen's first terminal is not a console's name.
        let name = if name == Some("tty0") {
            Some("tty1")
        } else {
            name
        };
        if let Some(name) = name.and_then(device) {
            keep(busybox, vec!["getty", "-L"], name)?;
        }
    }
    if let Err(error) = ssh() {
        warn!("login: no SSH: {error}");
    }
    info!("login: {ACCOUNT} can log in");
    Ok(())
}

/// A terminal's name as it stands below `/dev`.
fn device(name: &str) -> Option<String> {
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then(|| name.to_owned())
}

/// Keeps a prompt on a terminal: starts it again after each end.
fn keep(busybox: &'static str, arguments: Vec<&'static str>, device: String) -> io::Result<()> {
    std::thread::Builder::new()
        .name("getty".to_owned())
        .spawn(move || {
            loop {
                let started = Command::new(busybox)
                    .args(&arguments)
                    .args(["115200", &device, "linux"])
                    .env("PATH", super::supervise::PROGRAMS)
                    .spawn();
                match started {
                    // PID 1 may collect it first; it has ended in both cases.
                    Ok(mut child) => drop(child.wait()),
                    Err(error) => {
                        warn!("login: no prompt on {device}: {error}");
                        return;
                    }
                }
                std::thread::sleep(PAUSE);
            }
        })
        .map(drop)
}

/// Starts the SSH server, with keys of its own.
fn ssh() -> io::Result<()> {
    let program = first(&SSH)?;
    fs::create_dir_all(SSH_KEYS)?;
    // Its sessions need terminals.
    fs::create_dir_all("/dev/pts")?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    let options = Some("mode=0620,ptmxmode=0666");
    if let Err(error) = mount(Some("devpts"), "/dev/pts", Some("devpts"), flags, options) {
        warn!("login: /dev/pts cannot be mounted: {error}");
    }
    // In the foreground, keys made when they are asked for, log to us.
    Command::new(program)
        .args(["-F", "-R", "-E", "-p", "22"])
        .spawn()
        .map(drop)
}

fn first(places: &[&'static str; 2]) -> io::Result<&'static str> {
    let found = places.iter().find(|place| Path::new(place).exists());
    found.copied().ok_or_else(|| {
        let text = format!("none of {} is in this ramdisk", places.join(", "));
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

/// Gives the account its password: the second field of its line in shadow(5).
fn set_password(shadow: &Path, hash: &str) -> io::Result<()> {
    let text = with_password(&fs::read_to_string(shadow)?, hash);
    let draft: PathBuf = shadow.with_extension("new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?
        .write_all(text.as_bytes())?;
    fs::rename(draft, shadow)
}

fn with_password(text: &str, hash: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut fields: Vec<&str> = line.split(':').collect();
        if fields.first() == Some(&ACCOUNT)
            && let Some(field) = fields.get_mut(1)
        {
            *field = hash;
        }
        out.push_str(&fields.join(":"));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::device;
    use super::set_password;

    #[test]
    fn only_the_rescue_account_gets_the_password() {
        let dir = tempfile::tempdir().unwrap();
        let shadow = dir.path().join("shadow");
        let before = "root:*:19000:0:99999:7:::\nrescue:*:19000:0:99999:7:::\n";
        std::fs::write(&shadow, before).unwrap();
        // Again, as after a restart of the agent.
        for hash in ["$5$old$x", "$5$salt$hash"] {
            set_password(&shadow, hash).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(&shadow).unwrap(),
            "root:*:19000:0:99999:7:::\nrescue:$5$salt$hash:19000:0:99999:7:::\n"
        );
        let mode = std::fs::metadata(&shadow).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn terminals_have_plain_names() {
        assert_eq!(device("ttyS0").as_deref(), Some("ttyS0"));
        for wrong in ["", "../tty1", "pts/0", "tty S0"] {
            assert_eq!(device(wrong), None, "{wrong}");
        }
    }
}
