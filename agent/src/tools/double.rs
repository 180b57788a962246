//! A double of the programs: it keeps what was asked for and answers what it
//! was told to.

use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use super::Call;
use super::ToolError;
use super::Tools;

type Answer = Box<dyn Fn(&str) -> Option<Result<String, ToolError>> + Send + Sync>;

/// Answers every call with success and no output, unless told otherwise.
#[derive(Default)]
pub(crate) struct Double {
    calls: Mutex<Vec<String>>,
    answers: Vec<Answer>,
    missing: Vec<&'static str>,
}

impl Double {
    /// Answers calls whose line begins so; the first answer that fits counts.
    pub(crate) fn answer(
        mut self,
        begins: &'static str,
        answer: impl Fn(&str) -> Result<String, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.answers.push(Box::new(move |line| {
            line.starts_with(begins).then(|| answer(line))
        }));
        self
    }

    /// Has not this program.
    pub(crate) fn without(mut self, program: &'static str) -> Self {
        self.missing.push(program);
        self
    }

    fn log(&self) -> MutexGuard<'_, Vec<String>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All calls so far, one line each.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.log().clone()
    }
}

/// A failure of a program with this exit status.
pub(crate) fn failure(line: &str, code: i32, said: &str) -> ToolError {
    ToolError::Failed {
        line: line.to_owned(),
        status: format!("exit status: {code}"),
        code: Some(code),
        said: said.to_owned(),
    }
}

impl Tools for Double {
    fn run(&self, call: &Call<'_>) -> Result<String, ToolError> {
        if self.missing.contains(&call.program) {
            return Err(ToolError::Missing {
                program: call.program.to_owned(),
            });
        }
        let line = call.line();
        self.log().push(line.clone());
        let answer = self.answers.iter().find_map(|answer| answer(&line));
        answer.unwrap_or_else(|| Ok(String::new()))
    }
}
