//! A reading connection to SQLite, used by one thread at a time: the few calls
//! of its C interface that finding a row takes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::CStr;
use std::ffi::CString;
use std::ffi::c_int;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::ptr::NonNull;

use libsqlite3_sys as ffi;

use crate::codec::Cell;

/// How long a lock of another process is waited for, in milliseconds: readers
/// meet one only while a database is being recovered.
const BUSY: c_int = 1000;
/// What a connection keeps in memory of the file, in KiB.
const CACHE: &CStr = c"PRAGMA cache_size = -4096";
/// Statements that are kept ready; there are fewer in this program.
const STATEMENTS: usize = 64;

/// A call that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    /// As SQLite says it.
    #[error("{message} (code {code} of SQLite)")]
    Sqlite {
        /// Extended result code.
        code: c_int,
        /// Its words.
        message: String,
    },
    /// A column has a value of a kind that no column here has.
    #[error("column {0} is neither text in UTF-8 nor a number")]
    Value(c_int),
    /// A statement, path or value that cannot be handed over.
    #[error("{0} cannot be given to SQLite")]
    Unfit(&'static str),
}

/// An open connection.
pub(crate) struct Connection {
    /// Dropped before the handle is closed.
    statements: HashMap<String, Statement>,
    handle: NonNull<ffi::sqlite3>,
}

// SAFETY: SQLite is compiled for threads (SQLITE_THREADSAFE=1), and a
// connection opened with SQLITE_OPEN_NOMUTEX may move between threads as long
// as no two use it at once: all uses of the handle and of its statements take
// `&mut self` or own it.
unsafe impl Send for Connection {}

/// A statement that is ready to run.
struct Statement {
    handle: NonNull<ffi::sqlite3_stmt>,
    /// For each parameter in SQLite's order, the index of its argument: the
    /// number in its name (`$2`) less one.
    arguments: Vec<usize>,
}

/// A row: the values as they were when it was read.
pub struct LocalRow {
    /// All texts, one after the other.
    text: String,
    values: Vec<Value>,
}

enum Value {
    Null,
    Int(i64),
    Text(Range<usize>),
}

impl Connection {
    /// Opens a database that exists, for reading.
    pub(crate) fn open(path: &Path) -> Result<Self, Failed> {
        let path =
            CString::new(path.as_os_str().as_bytes()).map_err(|_| Failed::Unfit("the path"))?;
        let flags =
            ffi::SQLITE_OPEN_READONLY | ffi::SQLITE_OPEN_NOMUTEX | ffi::SQLITE_OPEN_EXRESCODE;
        let mut handle = ptr::null_mut();
        // SAFETY: the path ends in NUL, `handle` is a place for a pointer, and
        // no VFS is named.
        let code = unsafe { ffi::sqlite3_open_v2(path.as_ptr(), &mut handle, flags, ptr::null()) };
        // A handle is made even where opening fails, unless memory runs out.
        let handle = NonNull::new(handle).ok_or(Failed::Sqlite {
            code,
            message: "out of memory".to_owned(),
        })?;
        let connection = Self {
            statements: HashMap::new(),
            handle,
        };
        connection.check(code)?;
        // SAFETY: the handle is open.
        connection.check(unsafe { ffi::sqlite3_busy_timeout(handle.as_ptr(), BUSY) })?;
        // SAFETY: the handle is open, the statement ends in NUL, and neither
        // callback nor place for a message is given.
        connection.check(unsafe {
            ffi::sqlite3_exec(
                handle.as_ptr(),
                CACHE.as_ptr(),
                None,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        })?;
        Ok(connection)
    }

    /// The first `most` rows of a statement's answer. The statement is at rest
    /// afterwards: no snapshot of the database is held.
    pub(crate) fn rows(
        &mut self,
        sql: &str,
        cells: &[Cell],
        most: usize,
    ) -> Result<Vec<LocalRow>, Failed> {
        if self.statements.len() >= STATEMENTS && !self.statements.contains_key(sql) {
            self.statements.clear();
        }
        let db = self.handle;
        let statement = match self.statements.entry(sql.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(Statement::prepare(db, sql)?),
        };
        let outcome = statement
            .bind(cells)
            .and_then(|()| statement.rows(db, most));
        statement.rest();
        outcome
    }

    fn check(&self, code: c_int) -> Result<(), Failed> {
        match code {
            ffi::SQLITE_OK => Ok(()),
            code => Err(failed(self.handle, code)),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.statements.clear();
        // SAFETY: the handle is open, nothing uses it after this, and all its
        // statements have just been finalised.
        unsafe { ffi::sqlite3_close(self.handle.as_ptr()) };
    }
}

/// What SQLite says of a failure.
fn failed(db: NonNull<ffi::sqlite3>, code: c_int) -> Failed {
    // SAFETY: the connection is open; the message is NUL-terminated and valid
    // until the next call on the connection, and it is copied before.
    let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(db.as_ptr())) };
    Failed::Sqlite {
        code,
        message: message.to_string_lossy().into_owned(),
    }
}

impl Statement {
    fn prepare(db: NonNull<ffi::sqlite3>, sql: &str) -> Result<Self, Failed> {
        let length = c_int::try_from(sql.len()).map_err(|_| Failed::Unfit("the statement"))?;
        let mut handle = ptr::null_mut();
        // SAFETY: the connection is open, `sql` has `length` bytes, `handle` is
        // a place for a pointer, and the rest of the text is not asked for.
        let code = unsafe {
            ffi::sqlite3_prepare_v3(
                db.as_ptr(),
                sql.as_ptr().cast(),
                length,
                ffi::SQLITE_PREPARE_PERSISTENT,
                &mut handle,
                ptr::null_mut(),
            )
        };
        if code != ffi::SQLITE_OK {
            return Err(failed(db, code));
        }
        let handle = NonNull::new(handle).ok_or(Failed::Unfit("an empty statement"))?;
        let mut statement = Self {
            handle,
            arguments: Vec::new(),
        };
        // SAFETY: the statement is prepared.
        let count = unsafe { ffi::sqlite3_bind_parameter_count(handle.as_ptr()) };
        for parameter in 1..=count {
            // SAFETY: the parameter exists; its name is NUL-terminated, or a
            // null pointer where it has none, and lives as long as the
            // statement.
            let name = unsafe {
                let name = ffi::sqlite3_bind_parameter_name(handle.as_ptr(), parameter);
                (!name.is_null()).then(|| CStr::from_ptr(name))
            };
            let number = name
                .and_then(|name| name.to_str().ok()?.strip_prefix('$')?.parse().ok())
                .and_then(|number: usize| number.checked_sub(1));
            let number = number.ok_or(Failed::Unfit("a parameter without a number"))?;
            statement.arguments.push(number);
        }
        Ok(statement)
    }

    /// Binds borrowed values: they must outlive the run, and [`Self::rest`]
    /// takes them back.
    fn bind(&mut self, cells: &[Cell]) -> Result<(), Failed> {
        let statement = self.handle.as_ptr();
        for (parameter, argument) in (1..).zip(&self.arguments) {
            let cell = cells.get(*argument);
            let code = match cell.ok_or(Failed::Unfit("a parameter without a value"))? {
                Cell::Text(Some(text)) => {
                    let length =
                        c_int::try_from(text.len()).map_err(|_| Failed::Unfit("a long text"))?;
                    // SAFETY: the statement is at rest and has the parameter;
                    // the text has `length` bytes and, as `rows` unbinds it
                    // before it returns, outlives its use.
                    unsafe {
                        ffi::sqlite3_bind_text(
                            statement,
                            parameter,
                            text.as_ptr().cast(),
                            length,
                            ffi::SQLITE_STATIC(),
                        )
                    }
                }
                Cell::Int(Some(number)) => {
                    // SAFETY: the statement is at rest and has the parameter.
                    unsafe { ffi::sqlite3_bind_int64(statement, parameter, *number) }
                }
                Cell::Text(None) | Cell::Int(None) => {
                    // SAFETY: the statement is at rest and has the parameter.
                    unsafe { ffi::sqlite3_bind_null(statement, parameter) }
                }
            };
            if code != ffi::SQLITE_OK {
                return Err(Failed::Unfit("a value"));
            }
        }
        Ok(())
    }

    fn rows(&mut self, db: NonNull<ffi::sqlite3>, most: usize) -> Result<Vec<LocalRow>, Failed> {
        let mut rows = Vec::new();
        while rows.len() < most {
            // SAFETY: the statement is prepared and its values are alive.
            match unsafe { ffi::sqlite3_step(self.handle.as_ptr()) } {
                ffi::SQLITE_ROW => rows.push(self.row()?),
                ffi::SQLITE_DONE => break,
                code => return Err(failed(db, code)),
            }
        }
        Ok(rows)
    }

    /// The row that the statement stands at.
    fn row(&mut self) -> Result<LocalRow, Failed> {
        let statement = self.handle.as_ptr();
        // SAFETY: the statement is prepared.
        let count = unsafe { ffi::sqlite3_column_count(statement) };
        let mut row = LocalRow {
            text: String::with_capacity(1024),
            values: Vec::with_capacity(usize::try_from(count).unwrap_or_default()),
        };
        for column in 0..count {
            // SAFETY: the statement stands at a row that has the column.
            let value = match unsafe { ffi::sqlite3_column_type(statement, column) } {
                ffi::SQLITE_NULL => Value::Null,
                ffi::SQLITE_INTEGER => {
                    // SAFETY: as above.
                    Value::Int(unsafe { ffi::sqlite3_column_int64(statement, column) })
                }
                ffi::SQLITE_TEXT => {
                    // SAFETY: as above; the text is asked for before its
                    // length, so that the length is that of the text.
                    let (start, length) = unsafe {
                        (
                            ffi::sqlite3_column_text(statement, column),
                            ffi::sqlite3_column_bytes(statement, column),
                        )
                    };
                    let length = usize::try_from(length).unwrap_or_default();
                    if start.is_null() {
                        return Err(Failed::Value(column));
                    }
                    // SAFETY: there are `length` bytes at `start`, and they stay
                    // until the next call on the statement: they are copied
                    // before.
                    let bytes = unsafe { std::slice::from_raw_parts(start, length) };
                    let text = std::str::from_utf8(bytes).map_err(|_| Failed::Value(column))?;
                    let from = row.text.len();
                    row.text.push_str(text);
                    Value::Text(from..row.text.len())
                }
                _ => return Err(Failed::Value(column)),
            };
            row.values.push(value);
        }
        Ok(row)
    }

    /// Ends the run: the snapshot goes, and no borrowed value stays bound.
    fn rest(&mut self) {
        // SAFETY: the statement is prepared. What resetting returns is how the
        // run ended, which is known.
        unsafe {
            ffi::sqlite3_reset(self.handle.as_ptr());
            ffi::sqlite3_clear_bindings(self.handle.as_ptr());
        }
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        // SAFETY: the statement is prepared and not used after this.
        unsafe { ffi::sqlite3_finalize(self.handle.as_ptr()) };
    }
}

impl std::fmt::Debug for LocalRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Rows hold secrets.
        f.debug_struct("LocalRow").finish_non_exhaustive()
    }
}

impl LocalRow {
    /// A column of type TEXT; none for NULL. Fails for a number.
    pub(crate) fn text(&self, column: usize) -> Result<Option<&str>, &'static str> {
        match self.values.get(column) {
            Some(Value::Text(range)) => Ok(self.text.get(range.clone())),
            Some(Value::Null) => Ok(None),
            Some(Value::Int(_)) => Err("expected a text, found a number"),
            None => Err("the row has no such column"),
        }
    }

    /// A column of type BIGINT; none for NULL. Fails for a text.
    pub(crate) fn int(&self, column: usize) -> Result<Option<i64>, &'static str> {
        match self.values.get(column) {
            Some(Value::Int(number)) => Ok(Some(*number)),
            Some(Value::Null) => Ok(None),
            Some(Value::Text(_)) => Err("expected a number, found a text"),
            None => Err("the row has no such column"),
        }
    }
}
