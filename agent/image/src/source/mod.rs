//! Where the image's bytes come from.

mod file;
mod http;
mod range;
mod tls;

use std::path::PathBuf;
use std::sync::Arc;

use crate::checksum::decode_percent;
use crate::control::Control;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::redact;
use crate::request::HttpOptions;
use crate::request::Retry;

/// A readable image. Interruptions are dealt with inside; an error is final.
pub(crate) trait Source: Send {
    /// Reads some bytes at the current position; 0 only at the end, which
    /// is where it was announced to be.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, Error>;

    /// Moves to `position`; bytes behind `end` will not be asked for before
    /// the next call.
    fn seek(&mut self, position: u64, end: Option<u64>);

    /// Length in bytes, once known (after the first read at the latest for
    /// those that announce it).
    fn length(&self) -> Option<u64>;

    /// Name for messages, without credentials.
    fn name(&self) -> &str;
}

/// Opens the first of `locations` that is there.
pub(crate) fn open(
    locations: &[String],
    http: &HttpOptions,
    retry: Retry,
    control: &Arc<Control>,
) -> Result<Box<dyn Source>, Error> {
    let mut first_error = None;
    for location in locations {
        match open_one(location, http, retry, control) {
            Ok(source) => return Ok(source),
            Err(error) => {
                tracing::warn!(
                    source = redact::url(location),
                    err = error.chain(),
                    "source failed"
                );
                first_error.get_or_insert(error);
            }
        }
        if control.running().is_err() {
            break;
        }
    }
    Err(first_error.unwrap_or_else(|| {
        Error::new(
            ErrorKind::Request,
            Stage::Check,
            "no image source was given",
        )
    }))
}

fn open_one(
    location: &str,
    http: &HttpOptions,
    retry: Retry,
    control: &Arc<Control>,
) -> Result<Box<dyn Source>, Error> {
    match location.split_once("://") {
        Some(("http" | "https", _)) => {
            let mut source = http::HttpSource::new(location, http, retry, Arc::clone(control))?;
            source.connect()?;
            Ok(Box::new(source))
        }
        Some(("file", path)) => Ok(Box::new(file::FileSource::open(PathBuf::from(
            decode_percent(path),
        ))?)),
        Some(_) => Err(unsupported(location)),
        None => Ok(Box::new(file::FileSource::open(PathBuf::from(location))?)),
    }
}

/// Refuses a location whose scheme says that it can never be opened.
pub(crate) fn check(location: &str) -> Result<(), Error> {
    match location.split_once("://") {
        Some(("http" | "https" | "file", _)) | None => Ok(()),
        Some(_) => Err(unsupported(location)),
    }
}

fn unsupported(location: &str) -> Error {
    let scheme = location.split("://").next().unwrap_or_default();
    let text = format!(
        "the scheme {scheme:?} of {} is not supported, use http, https or file",
        redact::url(location)
    );
    Error::new(ErrorKind::Request, Stage::Check, text)
}

/// Reads all of a small source, at most `limit` bytes.
pub(crate) fn read_all(source: &mut dyn Source, limit: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut buf = vec![0; 64 << 10];
    loop {
        let got = source.read(&mut buf)?;
        if got == 0 {
            return Ok(bytes);
        }
        bytes.extend_from_slice(&buf[..got]);
        if bytes.len() > limit {
            let text = format!("{} is longer than {limit} bytes", source.name());
            return Err(Error::new(ErrorKind::Source, Stage::Fetch, text));
        }
    }
}
