//! Programs of others in the ramdisk: mdadm, stress-ng, fio, hardware
//! managers. None of them is needed for an image; where one is missing the
//! step that wants it says so.
//!
//! They are called with argument vectors, never by a shell, in a process group
//! of their own that ends with the call, with bounds of time and output.

mod process;

pub(crate) use process::Limits;
pub(crate) use process::Next;
pub(crate) use process::Trouble;
pub(crate) use process::run as run_lines;

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use wrought_plugin::Bounds;
use wrought_plugin::PATH;
use wrought_plugin::plain;

use crate::command::CancelToken;

/// Bytes that a tool may print.
const OUTPUT: usize = 1 << 20;

/// Called about once a second with the time since the start.
pub(crate) type Tick<'a> = &'a dyn Fn(Duration);

/// One call of a program.
pub(crate) struct Call<'a> {
    /// Its name, without a folder.
    pub(crate) program: &'a str,
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
    /// How long it may take.
    pub(crate) limit: Duration,
    /// Told how long it has been going on.
    pub(crate) tick: Option<Tick<'a>>,
}

impl<'a> Call<'a> {
    /// A call that may take a minute.
    pub(crate) fn new<S: Into<String>>(
        program: &'a str,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        Self {
            program,
            arguments: arguments.into_iter().map(Into::into).collect(),
            limit: Duration::from_secs(60),
            tick: None,
        }
    }

    /// As it would be typed, for logs and errors.
    pub(crate) fn line(&self) -> String {
        let mut line = self.program.to_owned();
        for argument in &self.arguments {
            line.push(' ');
            line.push_str(argument);
        }
        line
    }
}

/// Why a tool did not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// It is not there.
    #[error(
        "{program} is not in this ramdisk; build one that has it (cargo xtask ramdisk, \
         docs/hardware-managers.md)"
    )]
    Missing {
        /// The program.
        program: String,
    },
    /// It was not seen through to its end.
    #[error("{line}")]
    Trouble {
        /// The call.
        line: String,
        /// What happened.
        source: Trouble,
    },
    /// It ended with an error.
    #[error("{line} ended with {status}{}", quoted(said))]
    Failed {
        /// The call.
        line: String,
        /// Its exit status in words.
        status: String,
        /// Its exit status, absent when a signal ended it.
        code: Option<i32>,
        /// The end of what it said.
        said: String,
    },
}

fn quoted(said: &str) -> String {
    match said {
        "" => String::new(),
        said => format!("; it says: {said}"),
    }
}

/// Who calls programs. The double of tests records what is asked for.
pub(crate) trait Tools: Sync {
    /// Runs a program to its end and gives what it printed.
    fn run(&self, call: &Call<'_>) -> Result<String, ToolError>;
}

/// The programs of this machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct System {
    /// Ends a call when the agent shuts down.
    pub(crate) cancel: CancelToken,
}

impl Tools for System {
    fn run(&self, call: &Call<'_>) -> Result<String, ToolError> {
        let Some(path) = find(call.program) else {
            return Err(ToolError::Missing {
                program: call.program.to_owned(),
            });
        };
        let line = call.line();
        tracing::info!("calls {line}");
        let limits = Limits {
            time: call.limit,
            output: Bounds {
                line: OUTPUT,
                total: OUTPUT,
            },
        };
        let mut output = Vec::new();
        let mut keep = |line: &[u8]| {
            output.extend_from_slice(line);
            output.push(b'\n');
            Next::More
        };
        let end = process::run(
            &path,
            &call.arguments,
            None,
            limits,
            &self.cancel,
            call.tick,
            &mut keep,
        );
        let end = end.map_err(|source| ToolError::Trouble {
            line: line.clone(),
            source,
        })?;
        if !end.status.success() {
            // Some say on one, some on the other, what is wrong.
            let said = match end.errors.is_empty() {
                true => plain(&output),
                false => end.errors,
            };
            return Err(ToolError::Failed {
                line,
                status: end.status.to_string(),
                code: end.status.code(),
                said,
            });
        }
        Ok(String::from_utf8_lossy(&output).into_owned())
    }
}

fn find(program: &str) -> Option<PathBuf> {
    PATH.split(':')
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.is_file())
}

#[cfg(test)]
pub(crate) mod double;

#[cfg(test)]
mod tests {
    use super::Call;
    use super::System;
    use super::ToolError;
    use super::Tools;

    #[test]
    fn a_program_runs_and_a_missing_one_is_named() {
        let tools = System::default();
        let said = tools.run(&Call::new("echo", ["a b", "$HOME"])).unwrap();
        assert_eq!(said, "a b $HOME\n", "no shell");
        let error = tools.run(&Call::new("wrought-no-such-tool", ["x"]));
        let error = error.unwrap_err().to_string();
        assert!(
            error.starts_with("wrought-no-such-tool is not in this ramdisk"),
            "{error}"
        );
    }

    #[test]
    fn a_failure_tells_status_and_words() {
        let error = System::default().run(&Call::new("ls", ["/no/such/file"]));
        let error = error.unwrap_err();
        assert!(matches!(error, ToolError::Failed { code: Some(2), .. }));
        let text = error.to_string();
        assert!(
            text.starts_with("ls /no/such/file ended with exit status: 2; it says: "),
            "{text}"
        );
    }
}
