//! The real binary as a server, in a folder of its own on a free loopback
//! port, and as a client of it.

use std::io::BufRead;
use std::io::BufReader;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;

use tempfile::TempDir;

/// A running `wrought serve`, killed with the test.
pub(crate) struct Server {
    child: Child,
    pub(crate) dir: TempDir,
    pub(crate) url: String,
    /// What it printed at its start.
    pub(crate) greeting: Vec<String>,
}

/// The command, without what the environment might say.
pub(crate) fn wrought(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wrought"));
    command.args(args);
    for name in [
        "WROUGHT_URL",
        "WROUGHT_CA",
        "WROUGHT_PASSWORD_FILE",
        "WROUGHT_LOG",
    ] {
        command.env_remove(name);
    }
    command
}

impl Server {
    pub(crate) fn start(config: &str, args: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), config, args)
    }

    pub(crate) fn start_in(dir: TempDir, config: &str, args: &[&str]) -> Self {
        let file = dir.path().join("wrought.toml");
        std::fs::write(&file, config).unwrap();
        let mut child = wrought(&["serve", "--listen", "127.0.0.1:0"])
            .arg("--config")
            .arg(&file)
            .arg("--state-dir")
            .arg(dir.path().join("state"))
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut greeting = Vec::new();
        // The last line is the CA's fingerprint, or that of the password.
        let last = if args.contains(&"none") {
            "CA SHA-256"
        } else {
            "password in"
        };
        for line in lines.by_ref() {
            greeting.push(line.unwrap());
            if greeting[greeting.len() - 1].contains(last) {
                break;
            }
        }
        let url = greeting
            .iter()
            .find_map(|line| line.strip_prefix("wrought: API on "))
            .unwrap_or_else(|| panic!("the server did not start: {greeting:?}"))
            .to_owned();
        Self {
            child,
            dir,
            url,
            greeting,
        }
    }

    pub(crate) fn state(&self, file: &str) -> PathBuf {
        self.dir.path().join("state").join(file)
    }

    /// Runs a client command.
    pub(crate) fn client(&self, args: &[&str]) -> Output {
        wrought(args).args(["--url", &self.url]).output().unwrap()
    }

    /// Runs a client command that must succeed; its output.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.client(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// One field of a node.
    pub(crate) fn field(&self, node: &str, field: &str) -> serde_json::Value {
        let shown = self.ok(&["node", "show", node, "--json"]);
        let mut node: serde_json::Value = serde_json::from_str(&shown).unwrap();
        node[field].take()
    }

    /// Tells it to stop and gives its exit code.
    pub(crate) fn stop(mut self) -> (Option<i32>, TempDir) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        let code = self.child.wait().unwrap().code();
        let dir = std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap());
        (code, dir)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Permission bits.
pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().unwrap().permissions().mode() & 0o777
}
