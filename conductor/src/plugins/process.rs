//! A plug-in's process: no shell, a clean environment, a process group of its
//! own that ends with it, and output that is read with bounds.
//!
//! The group ends with the conductor as well, however that ends: its leader is
//! a [`Guard`], which waits for the end of a pipe that the conductor holds.

use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::signal::killpg;
use nix::unistd::Pid;
use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::io::BufReader;
use tokio::process::Child;
use tokio::process::ChildStderr;
use tokio::process::ChildStdin;
use tokio::process::ChildStdout;
use tokio::process::Command;
use tokio::task::JoinHandle;
use wrought_plugin::Bounds;
use wrought_plugin::Lines;
use wrought_plugin::PATH;
use wrought_plugin::Tail;
use wrought_plugin::ended;

/// How long a process may go on after its last word.
const GRACE: Duration = Duration::from_secs(5);
/// Tries to start a file that somebody is just writing, and the pause between
/// them.
const STARTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Argument of the program that is a guard.
const GUARD: &str = "step-guard";

/// The leader of a plug-in's process group, which kills the group when its
/// standard input ends: when this is dropped, and when the conductor dies.
struct Guard {
    _child: Child,
    #[allow(dead_code, reason = "held: its end is what the guard waits for")]
    alive: Option<ChildStdin>,
    group: Pid,
}

impl Guard {
    /// Starts `program step-guard`.
    fn start(program: &Path) -> Result<Self, String> {
        let failed = |problem: String| format!("cannot be started: its guard: {problem}");
        let mut command = Command::new(program);
        command
            .arg(GUARD)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command
            .spawn()
            .map_err(|error| failed(format!("{}: {error}", program.display())))?;
        let group = child.id().and_then(|id| i32::try_from(id).ok());
        let group = group.ok_or_else(|| failed("it ended at once".to_owned()))?;
        Ok(Self {
            alive: child.stdin.take(),
            _child: child,
            group: Pid::from_raw(group),
        })
    }
}

/// A running process. When this is dropped, its whole group is killed.
pub(super) struct Running {
    child: Child,
    #[allow(dead_code, reason = "held for as long as the group is to live")]
    guard: Option<Guard>,
    group: Group,
    out: BufReader<ChildStdout>,
    errors: JoinHandle<Tail>,
    input: JoinHandle<()>,
    ended: Option<ExitStatus>,
    lines: Lines,
}

/// How it ended.
pub(super) struct End {
    status: ExitStatus,
    errors: String,
}

impl End {
    /// What is to be told of it, when it did not end well.
    pub(super) fn failure(&self) -> Option<String> {
        if self.status.success() {
            return None;
        }
        Some(ended(self.status, &self.errors))
    }
}

struct Group(Option<Pid>);

impl Group {
    fn kill(&mut self) {
        if let Some(group) = self.0.take() {
            // Nobody is left, which is what was wanted.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.group.kill();
        self.errors.abort();
        self.input.abort();
    }
}

impl Running {
    /// Starts `PLUGIN verb` with `input` on its standard input, in the group of
    /// a guard where there is a program for that.
    pub(super) async fn start(
        path: &Path,
        verb: &str,
        input: Option<Vec<u8>>,
        bounds: Bounds,
        guard: Option<&Path>,
    ) -> Result<Self, String> {
        // Before the plug-in: from its first moment on there is who ends it.
        let guard = guard.map(Guard::start).transpose()?;
        let mut command = Command::new(path);
        command
            .arg(verb)
            .env_clear()
            .env("PATH", PATH)
            .env("LANG", "C.UTF-8")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(guard.as_ref().map_or(0, |guard| guard.group.as_raw()))
            .kill_on_drop(true);
        let mut tries = 1;
        let mut child = loop {
            match command.spawn() {
                Ok(child) => break child,
                Err(error)
                    if error.kind() == io::ErrorKind::ExecutableFileBusy && tries < STARTS =>
                {
                    tries += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(format!("cannot be started: {error}")),
            }
        };
        let group = match &guard {
            Some(guard) => Some(guard.group),
            None => child
                .id()
                .and_then(|id| i32::try_from(id).ok())
                .map(Pid::from_raw),
        };
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(out), Some(errors)) = pipes else {
            return Err("cannot be started: it has no pipes".to_owned());
        };
        let input = tokio::spawn(async move {
            // One that does not read it does not need it.
            if let Some(input) = input {
                let _ = stdin.write_all(&input).await;
            }
        });
        Ok(Self {
            child,
            guard,
            group: Group(group),
            out: BufReader::new(out),
            errors: tokio::spawn(tail(errors)),
            input,
            ended: None,
            lines: Lines::new(bounds),
        })
    }

    /// The next line of its standard output, none at the end.
    pub(super) async fn line(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            let chunk = tokio::select! {
                biased;
                chunk = self.out.fill_buf() => {
                    chunk.map_err(|error| format!("its output cannot be read: {error}"))?
                }
                ended = self.child.wait(), if self.ended.is_none() => {
                    let ended = ended.map_err(|error| format!("it cannot be waited for: {error}"))?;
                    self.ended = Some(ended);
                    // Those that it started would hold the pipe open.
                    self.group.kill();
                    continue;
                }
                // Somebody left the group and holds the pipe.
                () = tokio::time::sleep(GRACE), if self.ended.is_some() => return Ok(None),
            };
            if chunk.is_empty() {
                return Ok(self.lines.last());
            }
            let taken = self.lines.take(chunk);
            let (taken, line) = taken.map_err(|bounds| format!("it prints more than {bounds}"))?;
            self.out.consume(taken);
            if line.is_some() {
                return Ok(line);
            }
        }
    }

    /// Waits for its end, not long: it has said its last word. Then its group
    /// is killed.
    pub(super) async fn end(mut self) -> Result<End, String> {
        let status = match self.ended {
            Some(status) => status,
            None => match tokio::time::timeout(GRACE, self.child.wait()).await {
                Ok(Ok(status)) => status,
                Ok(Err(error)) => return Err(format!("it cannot be waited for: {error}")),
                Err(_) => {
                    return Err(format!(
                        "it still ran {} s after its last word",
                        GRACE.as_secs()
                    ));
                }
            },
        };
        self.group.kill();
        let errors = tokio::time::timeout(GRACE, &mut self.errors).await;
        let errors = match errors {
            Ok(Ok(errors)) => errors,
            _ => Tail::default(),
        };
        Ok(End {
            status,
            errors: errors.plain(),
        })
    }
}

/// The end of what comes out of a pipe.
async fn tail(mut pipe: ChildStderr) -> Tail {
    let mut kept = Tail::default();
    let mut buffer = [0_u8; 1024];
    while let Ok(got) = pipe.read(&mut buffer).await {
        if got == 0 {
            break;
        }
        kept.add(&buffer[..got]);
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::time::Duration;

    use super::Bounds;
    use super::Running;

    fn script(folder: &tempfile::TempDir, text: &str) -> PathBuf {
        let path = folder.path().join("plugin");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    const BOUNDS: Bounds = Bounds {
        line: 1000,
        total: 5000,
    };

    async fn lines(running: &mut Running) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        while let Some(line) = running.line().await? {
            lines.push(String::from_utf8(line).unwrap());
        }
        Ok(lines)
    }

    #[tokio::test]
    async fn a_process_gets_its_input_and_nothing_of_ours() {
        let folder = tempfile::tempdir().unwrap();
        let path = script(
            &folder,
            "cat; echo; echo \"$1|$HOME|$CARGO_PKG_NAME|$PWD\"; echo bad >&2; exit 3",
        );
        let input = Some(b"{\"a\":1}".to_vec());
        let mut running = Running::start(&path, "run", input, BOUNDS, None)
            .await
            .unwrap();
        let got = lines(&mut running).await.unwrap();
        assert_eq!(got, ["{\"a\":1}", "run|||/"]);
        let failure = running.end().await.unwrap().failure().unwrap();
        assert_eq!(
            failure,
            "ended with exit status: 3; its error output ends with: bad"
        );
    }

    #[tokio::test]
    async fn too_much_output_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = script(
            &folder,
            "while :; do printf xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done",
        );
        let mut running = Running::start(&path, "run", None, BOUNDS, None)
            .await
            .unwrap();
        let problem = lines(&mut running).await.unwrap_err();
        assert!(
            problem.contains("more than 1000 bytes in a line"),
            "{problem}"
        );
    }

    fn runs(pid: &str) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        // A zombie is nobody.
        status.is_ok_and(|status| !status.contains(") Z "))
    }

    async fn ends(pid: &str) {
        for _ in 0..500 {
            if !runs(pid) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("process {pid} still runs");
    }

    #[tokio::test]
    async fn what_it_started_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = script(&folder, "sleep 600 & echo $!");
        let mut running = Running::start(&path, "run", None, BOUNDS, None)
            .await
            .unwrap();
        // The sleeper holds the pipe, but not for longer than its parent lives.
        let got = lines(&mut running).await.unwrap();
        assert!(running.end().await.unwrap().failure().is_none());
        ends(&got[0]).await;
    }

    #[tokio::test]
    async fn a_dropped_process_is_killed_with_its_group() {
        let folder = tempfile::tempdir().unwrap();
        let path = script(&folder, "sleep 600 & echo $!; sleep 600");
        let mut running = Running::start(&path, "run", None, BOUNDS, None)
            .await
            .unwrap();
        let sleeper = running.line().await.unwrap().unwrap();
        let sleeper = String::from_utf8(sleeper).unwrap();
        assert!(runs(&sleeper));
        drop(running);
        ends(&sleeper).await;
    }

    /// A guard as `wrought step-guard` is one.
    fn guard(folder: &tempfile::TempDir) -> PathBuf {
        let path = folder.path().join("guard");
        let text = "#!/bin/sh\n[ \"$1\" = step-guard ] || exit 64\ncat\nkill -9 -$$\n";
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    #[tokio::test]
    async fn a_guard_ends_the_group_when_the_conductor_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let guard = guard(&folder);
        let path = script(&folder, "sleep 600 & echo $!; sleep 600");
        let mut running = Running::start(&path, "run", None, BOUNDS, Some(&guard))
            .await
            .unwrap();
        let sleeper = running.line().await.unwrap().unwrap();
        let sleeper = String::from_utf8(sleeper).unwrap();
        assert!(runs(&sleeper));
        // What the kernel does when the conductor's process ends.
        let held = running.guard.as_mut().unwrap();
        held.alive.take().unwrap();
        ends(&sleeper).await;
        // Nobody in this process has killed the group.
        assert!(running.group.0.is_some());
    }

    #[tokio::test]
    async fn a_guard_ends_with_its_plug_in() {
        let folder = tempfile::tempdir().unwrap();
        let guard = guard(&folder);
        let path = script(&folder, "echo well");
        let mut running = Running::start(&path, "run", None, BOUNDS, Some(&guard))
            .await
            .unwrap();
        let leader = running.guard.as_ref().unwrap().group.to_string();
        assert!(runs(&leader));
        assert_eq!(lines(&mut running).await.unwrap(), ["well"]);
        assert!(running.end().await.unwrap().failure().is_none());
        ends(&leader).await;
        let gone = folder.path().join("none");
        let problem = Running::start(&path, "run", None, BOUNDS, Some(&gone)).await;
        assert!(problem.err().unwrap().contains("its guard"));
    }

    #[tokio::test]
    async fn a_file_that_is_no_program_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plugin");
        std::fs::write(&path, "\u{7f}no program").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        let problem = Running::start(&path, "run", None, BOUNDS, None)
            .await
            .err()
            .unwrap();
        assert!(problem.starts_with("cannot be started"), "{problem}");
    }
}
