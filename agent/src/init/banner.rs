//! What a person at the machine wants to know, on every console that the kernel
//! command line names: who the machine is, where it can be reached, what it is
//! doing. The agent's log goes to one console alone; this goes to the others,
//! too, whenever it changes.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::Weak;
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use wrought_wire::lookup::LookupNode;

use crate::command::Runner;

/// How often it is looked whether anything has changed.
const LOOK: Duration = Duration::from_secs(1);
/// Most consoles that are written to.
const CONSOLES: usize = 8;

/// What is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Facts {
    node: Option<String>,
    api: Option<String>,
    addresses: Vec<String>,
    step: Option<String>,
}

/// Holds what the agent knows of itself; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    api: Option<String>,
    node: Option<String>,
    runner: Weak<Runner>,
}

impl Board {
    /// The API that is asked.
    pub fn set_api(&self, api: &str) {
        self.change(|known| known.api = Some(api.to_owned()));
    }

    /// The node that this machine is, and who runs its commands.
    pub fn set_node(&self, node: &LookupNode, runner: &Arc<Runner>) {
        let text = node.uuid.to_string();
        self.change(|known| {
            known.node = Some(text);
            known.runner = Arc::downgrade(runner);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn facts(&self) -> Facts {
        let (api, node, runner) = {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            (
                known.api.clone(),
                known.node.clone(),
                known.runner.upgrade(),
            )
        };
        Facts {
            node,
            api,
            addresses: addresses(),
            step: runner.and_then(|runner| runner.current()),
        }
    }

    /// Shows it on these consoles from now on.
    pub async fn show(self, consoles: Vec<PathBuf>) {
        let mut shown = None;
        loop {
            let facts = self.facts();
            if shown.as_ref() != Some(&facts) {
                let text = banner(&facts);
                for console in &consoles {
                    write(console, &text);
                }
                shown = Some(facts);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// The devices of all `console=` on the kernel command line, in order.
pub fn consoles(command_line: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for word in command_line.split_whitespace() {
        let Some(value) = word.strip_prefix("console=") else {
            continue;
        };
        let name = value.split(',').next().unwrap_or_default();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || name == "null" || !name.bytes().all(plain) {
            continue;
        }
        let path = Path::new("/dev").join(name);
        if !found.contains(&path) && found.len() < CONSOLES {
            found.push(path);
        }
    }
    found
}

fn banner(facts: &Facts) -> String {
    let mut text = format!("\r\n-- wrought {} ", env!("CARGO_PKG_VERSION"));
    text.push_str(&"-".repeat(60_usize.saturating_sub(text.len())));
    let addresses = match facts.addresses.is_empty() {
        true => "none yet".to_owned(),
        false => facts.addresses.join(", "),
    };
    let node = match (&facts.node, &facts.api) {
        (Some(node), _) => node.clone(),
        (None, Some(api)) => format!("not known yet; asking {api}"),
        (None, None) => "not known yet".to_owned(),
    };
    let step = facts.step.as_deref().unwrap_or("none");
    for (name, value) in [("node", &*node), ("addresses", &addresses), ("step", step)] {
        // Writing to a String cannot fail.
        write!(text, "\r\n   {name:<10} {value}").ok();
    }
    text.push_str("\r\n--\r\n");
    text
}

/// Interfaces with their addresses, those of the machine itself apart.
fn addresses() -> Vec<String> {
    let Ok(all) = getifaddrs() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in all {
        if entry.flags.contains(InterfaceFlags::IFF_LOOPBACK) {
            continue;
        }
        let Some(address) = entry.address else {
            continue;
        };
        let text = if let Some(v4) = address.as_sockaddr_in() {
            v4.ip().to_string()
        } else if let Some(v6) = address.as_sockaddr_in6() {
            v6.ip().to_string()
        } else {
            continue;
        };
        found.push(format!("{} {text}", entry.interface_name));
    }
    found
}

/// A console that is not there, or full, must not stop the agent.
fn write(console: &Path, text: &str) {
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(console);
    if let Ok(mut device) = opened {
        device.write_all(text.as_bytes()).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::Board;
    use super::Facts;
    use super::banner;
    use super::consoles;

    #[test]
    fn every_console_of_the_command_line_once() {
        let line = "quiet console=tty0 console=ttyS0,115200n8 console=ttyS0 console=null \
                    console=../x consoleblank=0 console=";
        let found = consoles(line);
        assert_eq!(found, [Path::new("/dev/tty0"), Path::new("/dev/ttyS0")]);
    }

    #[test]
    fn the_banner_names_node_addresses_and_step() {
        let mut facts = Facts::default();
        let text = banner(&facts);
        assert!(text.contains("node       not known yet\r\n"), "{text}");
        assert!(text.contains("addresses  none yet\r\n"), "{text}");
        facts.api = Some("https://192.0.2.1:6385".to_owned());
        assert!(banner(&facts).contains("not known yet; asking https://192.0.2.1:6385"));
        facts.node = Some("1be26c0b-03f2-4d2e-ae87-c02d7f33c123".to_owned());
        facts.addresses = vec!["eth0 192.0.2.77".to_owned(), "eth0 fe80::1".to_owned()];
        facts.step = Some("deploy.write_image".to_owned());
        let text = banner(&facts);
        for part in [
            "node       1be26c0b-03f2-4d2e-ae87-c02d7f33c123\r\n",
            "addresses  eth0 192.0.2.77, eth0 fe80::1\r\n",
            "step       deploy.write_image\r\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_shown_once() {
        let dir = tempfile::tempdir().unwrap();
        let console = dir.path().join("console");
        std::fs::write(&console, "").unwrap();
        let board = Board::default();
        let showing = tokio::spawn(board.clone().show(vec![console.clone()]));
        let shown = || std::fs::read_to_string(&console).unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        // A file is written over from its beginning, unlike a console.
        assert_eq!(shown().matches("-- wrought").count(), 1);
        assert!(shown().contains("not known yet\r\n"));
        board.set_api("https://192.0.2.1:6385");
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(shown().contains("asking https://192.0.2.1:6385"));
        showing.abort();
    }
}
