//! The table of commands.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Map;
use serde_json::Value;

use crate::command::CommandFailure;
use crate::command::Context;

/// Named parameters of a command.
pub type Args = Map<String, Value>;

/// What a command ends with. A string is wrapped as `{"result": …}` for the
/// wire, in asynchronous commands with the command's name before it.
pub type Outcome = Result<Value, CommandFailure>;

/// A started command.
pub(crate) type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;

type Start = dyn Fn(Context, Args) -> Running + Send + Sync;
type Check = dyn Fn(&Args) -> Result<(), String> + Send + Sync;

/// Whether `POST` answers with the outcome or at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The answer waits for the end: short commands.
    Sync,
    /// The answer says `RUNNING`, the end is told by a heartbeat.
    Async,
}

/// One entry of the table.
#[derive(Clone)]
pub struct Command {
    /// How it answers.
    pub mode: Mode,
    start: Arc<Start>,
    check: Option<Arc<Check>>,
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl Command {
    /// Says what is wrong with the parameters, if the command has a check.
    pub fn check(&self, args: &Args) -> Result<(), String> {
        self.check.as_ref().map_or(Ok(()), |check| check(args))
    }

    pub(crate) fn start(&self, context: Context, args: Args) -> Running {
        (self.start)(context, args)
    }
}

/// All commands by `extension.command`.
#[derive(Debug, Default)]
pub struct Registry(BTreeMap<String, Command>);

impl Registry {
    /// Adds a command that blocks its thread: disks, decoders, hashes. It
    /// runs on a thread of its own and may call
    /// `tokio::runtime::Handle::current()`. A name that is there already is
    /// replaced.
    pub fn blocking<F>(&mut self, name: &str, mode: Mode, handler: F) -> &mut Self
    where
        F: Fn(&Context, Args) -> Outcome + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        let start = move |context: Context, args: Args| -> Running {
            let handler = Arc::clone(&handler);
            let thread = tokio::task::spawn_blocking(move || handler(&context, args));
            Box::pin(async move {
                thread.await.unwrap_or_else(|error| {
                    Err(CommandFailure::execution(format!(
                        "the command's thread ended: {error}"
                    )))
                })
            })
        };
        self.insert(name, mode, Arc::new(start))
    }

    /// Adds a command that is a future and never blocks.
    pub fn task<F, Fut>(&mut self, name: &str, mode: Mode, handler: F) -> &mut Self
    where
        F: Fn(Context, Args) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let start =
            move |context: Context, args: Args| -> Running { Box::pin(handler(context, args)) };
        self.insert(name, mode, Arc::new(start))
    }

    /// Gives a command a check of its parameters, done before it starts:
    /// what the check says is answered with status 400. Without effect on a
    /// name that is not there.
    pub fn check<F>(&mut self, name: &str, check: F) -> &mut Self
    where
        F: Fn(&Args) -> Result<(), String> + Send + Sync + 'static,
    {
        if let Some(command) = self.0.get_mut(name) {
            command.check = Some(Arc::new(check));
        }
        self
    }

    /// Finds a command by its full name.
    pub fn get(&self, name: &str) -> Option<&Command> {
        self.0.get(name)
    }

    /// Whether any command belongs to this extension.
    pub fn has_extension(&self, extension: &str) -> bool {
        let prefix = format!("{extension}.");
        self.0
            .range(prefix.clone()..)
            .next()
            .is_some_and(|(name, _)| name.starts_with(&prefix))
    }

    /// All full names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    fn insert(&mut self, name: &str, mode: Mode, start: Arc<Start>) -> &mut Self {
        self.0.insert(
            name.to_owned(),
            Command {
                mode,
                start,
                check: None,
            },
        );
        self
    }
}
