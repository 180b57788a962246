//! One process: a clean environment, a process group that ends with it, and
//! output that is read line by line with bounds.

use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use nix::sys::signal::Signal;
use nix::sys::signal::killpg;
use nix::sys::wait::Id;
use nix::sys::wait::WaitPidFlag;
use nix::sys::wait::WaitStatus;
use nix::sys::wait::waitid;
use nix::unistd::Pid;
use wrought_plugin::Bounds;
use wrought_plugin::Lines;
use wrought_plugin::PATH;
use wrought_plugin::Tail;

use super::Tick;
use crate::command::CancelToken;

/// How long a process may go on after its last word.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked after.
const LOOK: Duration = Duration::from_millis(50);
/// Pause between two ticks.
const TICK: Duration = Duration::from_secs(1);
/// Tries to start a file that somebody is just writing, and the pause between
/// them.
const STARTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);
/// Lines that wait to be looked at.
const AHEAD: usize = 16;

/// Bounds of one process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// From its start to its end.
    pub(crate) time: Duration,
    /// What it may print on its standard output.
    pub(crate) output: Bounds,
}

/// What follows a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// More of them.
    More,
    /// Its end, soon: that was its last word.
    End,
}

/// How it ended.
#[derive(Debug)]
pub(crate) struct End {
    /// Its exit status.
    pub(crate) status: ExitStatus,
    /// The end of its error output, as one line.
    pub(crate) errors: String,
}

/// Why it was not seen through to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// The kernel does not start it.
    #[error("it cannot be started")]
    Start(#[source] io::Error),
    /// It takes too long, and was killed.
    #[error("it did not end within {} s and was killed", .0.as_secs())]
    Time(Duration),
    /// It says too much, and was killed.
    #[error("it printed more than {0} and was killed")]
    Output(Bounds),
    /// It has nothing to say any more, but does not end.
    #[error("it still ran {} s after its last word and was killed", GRACE.as_secs())]
    Lingers,
    /// The agent shuts down.
    #[error("it was killed, because the agent shuts down")]
    Stopped,
    /// It cannot be waited for or read from.
    #[error("it cannot be followed")]
    Lost(#[source] io::Error),
}

enum Event {
    Line(Vec<u8>),
    TooMuch(Bounds),
    Failed(io::Error),
}

/// The process; its group is killed and it is waited for when this goes.
struct Group {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Group {
    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().map(Pid::from_raw)
    }

    /// Its status, once it has ended; then nobody is left of its group.
    fn look(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            let Some(pid) = self.pid() else {
                return Ok(None);
            };
            // It keeps its number until it is waited for, so that the group
            // that is killed is its own.
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
            if waitid(Id::Pid(pid), flags)? == WaitStatus::StillAlive {
                return Ok(None);
            }
            self.end()?;
        }
        Ok(self.ended)
    }

    fn end(&mut self) -> io::Result<()> {
        if let Some(pid) = self.pid() {
            // Nobody is left, which is what was wanted.
            killpg(pid, Signal::SIGKILL).ok();
        }
        self.ended = Some(self.child.wait()?);
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.ended.is_none()
            && let Err(error) = self.end()
        {
            tracing::warn!(%error, "a process cannot be waited for");
        }
    }
}

/// Runs `program` to its end, with `input` on its standard input. `on_line` gets
/// each line of its standard output.
pub(crate) fn run(
    program: &Path,
    arguments: &[String],
    input: Option<Vec<u8>>,
    limits: Limits,
    cancel: &CancelToken,
    tick: Option<Tick<'_>>,
    on_line: &mut dyn FnMut(&[u8]) -> Next,
) -> Result<End, Trouble> {
    let start = Instant::now();
    let mut child = spawn(program, arguments).map_err(Trouble::Start)?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut group = Group { child, ended: None };
    let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(Trouble::Start(io::Error::other("it has no pipes")));
    };
    thread::spawn(move || {
        // One that does not read it does not need it.
        if let Some(input) = input {
            stdin.write_all(&input).ok();
        }
    });
    let errors = tail_of(stderr);
    let events = lines_of(stdout, limits.output);
    let mut last_word: Option<Instant> = None;
    let mut ticked = start;
    let mut silent = false;
    loop {
        if cancel.is_cancelled() {
            return Err(Trouble::Stopped);
        }
        if start.elapsed() >= limits.time {
            return Err(Trouble::Time(limits.time));
        }
        if let Some(tick) = tick
            && ticked.elapsed() >= TICK
        {
            ticked = Instant::now();
            tick(start.elapsed());
        }
        let ended = group.look().map_err(Trouble::Lost)?;
        if silent && let Some(status) = ended {
            // Somebody who left the group may hold the pipe.
            let errors = errors.recv_timeout(GRACE).unwrap_or_default().plain();
            return Ok(End { status, errors });
        }
        if let Some(last_word) = last_word
            && last_word.elapsed() >= GRACE
        {
            match ended {
                Some(_) => silent = true,
                None => return Err(Trouble::Lingers),
            }
        }
        if silent {
            thread::sleep(LOOK);
            continue;
        }
        match events.recv_timeout(LOOK) {
            Ok(Event::Line(line)) => {
                if on_line(&line) == Next::End {
                    silent = true;
                    last_word.get_or_insert_with(Instant::now);
                }
            }
            Ok(Event::TooMuch(bounds)) => return Err(Trouble::Output(bounds)),
            Ok(Event::Failed(error)) => return Err(Trouble::Lost(error)),
            Err(RecvTimeoutError::Timeout) => {
                if ended.is_some() {
                    last_word.get_or_insert_with(Instant::now);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                silent = true;
                last_word.get_or_insert_with(Instant::now);
            }
        }
    }
}

fn spawn(program: &Path, arguments: &[String]) -> io::Result<Child> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("LANG", "C.UTF-8")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut tries = 1;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && tries < STARTS => {
                tries += 1;
                thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

/// A thread that reads lines until there are no more, or too many.
fn lines_of(out: impl Read + Send + 'static, bounds: Bounds) -> Receiver<Event> {
    let (sender, receiver) = mpsc::sync_channel(AHEAD);
    thread::spawn(move || {
        let mut out = BufReader::new(out);
        let mut lines = Lines::new(bounds);
        loop {
            let chunk = match out.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    sender.send(Event::Failed(error)).ok();
                    return;
                }
            };
            if chunk.is_empty() {
                if let Some(last) = lines.last() {
                    sender.send(Event::Line(last)).ok();
                }
                return;
            }
            let (taken, line) = match lines.take(chunk) {
                Ok(taken) => taken,
                Err(bounds) => {
                    sender.send(Event::TooMuch(bounds)).ok();
                    return;
                }
            };
            out.consume(taken);
            if let Some(line) = line
                && sender.send(Event::Line(line)).is_err()
            {
                return;
            }
        }
    });
    receiver
}

/// A thread that keeps the end of what comes out of a pipe.
fn tail_of(mut pipe: impl Read + Send + 'static) -> Receiver<Tail> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut kept = Tail::default();
        let mut buffer = [0_u8; 1024];
        while let Ok(got) = pipe.read(&mut buffer) {
            if got == 0 {
                break;
            }
            kept.add(&buffer[..got]);
        }
        sender.send(kept).ok();
    });
    receiver
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::time::Duration;

    use super::Bounds;
    use super::End;
    use super::Limits;
    use super::Next;
    use super::Trouble;
    use super::run;
    use crate::command::CancelToken;

    const LIMITS: Limits = Limits {
        time: Duration::from_secs(60),
        output: Bounds {
            line: 1000,
            total: 5000,
        },
    };

    struct Script {
        _folder: tempfile::TempDir,
        path: PathBuf,
    }

    fn script(text: &str) -> Script {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tool");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        Script {
            _folder: folder,
            path,
        }
    }

    fn lines(script: &Script, limits: Limits) -> (Result<End, Trouble>, Vec<String>) {
        let mut lines = Vec::new();
        let mut keep = |line: &[u8]| {
            let line = String::from_utf8(line.to_vec()).unwrap();
            let last = line == "last";
            lines.push(line);
            if last { Next::End } else { Next::More }
        };
        let input = Some(b"{\"a\":1}".to_vec());
        let arguments = ["run".to_owned()];
        let cancel = CancelToken::default();
        let end = run(
            &script.path,
            &arguments,
            input,
            limits,
            &cancel,
            None,
            &mut keep,
        );
        (end, lines)
    }

    #[test]
    fn it_gets_its_input_and_nothing_of_ours() {
        let script =
            script("cat; echo; echo \"$1|$HOME|$CARGO_PKG_NAME|$PWD\"; echo bad >&2; exit 3");
        let (end, lines) = lines(&script, LIMITS);
        assert_eq!(lines, ["{\"a\":1}", "run|||/"]);
        let end = end.unwrap();
        assert_eq!((end.status.code(), end.errors.as_str()), (Some(3), "bad"));
    }

    #[test]
    fn too_much_output_ends_it() {
        let script = script("while :; do printf xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done");
        let (end, _) = lines(&script, LIMITS);
        let problem = end.unwrap_err().to_string();
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

    fn ends(pid: &str) {
        for _ in 0..500 {
            if !runs(pid) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("process {pid} still runs");
    }

    #[test]
    fn too_much_time_ends_it_and_its_children() {
        let script = script("sleep 600 & echo $!; sleep 600");
        let limits = Limits {
            time: Duration::from_secs(2),
            ..LIMITS
        };
        let (end, lines) = lines(&script, limits);
        let problem = end.unwrap_err().to_string();
        assert_eq!(problem, "it did not end within 2 s and was killed");
        ends(&lines[0]);
    }

    #[test]
    fn what_it_started_ends_with_it() {
        let script = script("sleep 600 & echo $!; echo last");
        let (end, lines) = lines(&script, LIMITS);
        assert!(end.unwrap().status.success());
        ends(&lines[0]);
    }

    #[test]
    fn a_last_word_is_the_last() {
        let script = script("echo last; sleep 600");
        let (end, _) = lines(&script, LIMITS);
        assert!(matches!(end, Err(Trouble::Lingers)));
    }

    #[test]
    fn it_ends_when_the_agent_does() {
        let script = script("echo last; sleep 600");
        let cancel = CancelToken::default();
        cancel.cancel();
        let end = run(&script.path, &[], None, LIMITS, &cancel, None, &mut |_| {
            Next::More
        });
        assert!(matches!(end, Err(Trouble::Stopped)));
    }

    #[test]
    fn a_file_that_is_no_program_says_so() {
        let script = script("");
        std::fs::write(&script.path, "\u{7f}no program").unwrap();
        let (end, _) = lines(&script, LIMITS);
        assert!(matches!(end, Err(Trouble::Start(_))));
    }
}
