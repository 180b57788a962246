//! Threads whose panics are failures of the write.

use std::thread;
use std::thread::Scope;
use std::thread::ScopedJoinHandle;

use crate::control::Control;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;

/// Starts a thread whose panic stops the write instead of leaving the others
/// waiting for it.
pub(super) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    control: &'scope Control,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, Error> {
    let watched = move || {
        let guard = FailOnPanic(control);
        let result = work();
        std::mem::forget(guard);
        result
    };
    let builder = thread::Builder::new().name(name.to_owned());
    builder.spawn_scoped(scope, watched).map_err(|error| {
        let text = format!("start the {name} thread");
        Error::new(ErrorKind::Internal, Stage::Write, text).caused_by(error)
    })
}

struct FailOnPanic<'a>(&'a Control);

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        let text = "a thread of the write panicked";
        self.0
            .fail(Error::new(ErrorKind::Internal, Stage::Write, text));
    }
}

pub(super) fn joined<T>(handle: ScopedJoinHandle<'_, T>) -> Result<T, Error> {
    handle.join().map_err(|_| {
        Error::new(
            ErrorKind::Internal,
            Stage::Write,
            "a thread of the write panicked",
        )
    })
}
