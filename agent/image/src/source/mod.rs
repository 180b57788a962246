//! Where the image's bytes come from.
//!
//! [`Plan`] holds the places of one image. Opened, they are one [`Source`]
//! that goes from a place that fails to the next one, in the middle of the
//! image too: bytes that were handed out stay as they are, and the digest
//! over all of them decides.

mod client;
mod file;
mod http;
mod mirrors;
mod pace;
mod range;
mod registry;
mod tls;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use client::Http;
use mirrors::Mirrors;
pub(crate) use mirrors::none_left;
use reqwest::Url;
pub(crate) use tls::config as tls_config;

use crate::checksum::Implied;
use crate::checksum::decode_percent_bytes;
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

/// Why one attempt at one place ended.
enum Failed {
    /// Another attempt may do better.
    Again(Error),
    /// Bytes come, but so few that there would be no end; another attempt may
    /// do better.
    Slow(Error),
    /// It will not.
    Final(Error),
    /// Nobody wants the bytes any more.
    Stopped,
}

/// One place of an image; a failure is one failed attempt.
trait Place: Send {
    /// Reads some bytes at the current position; 0 only at the end.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, Failed>;

    /// Makes sure that there is something to read from.
    fn connect(&mut self) -> Result<(), Failed>;

    /// As [`Source::seek`].
    fn seek(&mut self, position: u64, end: Option<u64>);

    /// The length that another place of the same image announced.
    fn expect(&mut self, length: u64);

    /// As [`Source::length`].
    fn length(&self) -> Option<u64>;

    /// As [`Source::name`].
    fn name(&self) -> &str;
}

/// The places of one image, those in registries looked up.
pub(crate) struct Plan {
    places: Vec<Box<dyn Place>>,
    implied: Option<Implied>,
    control: Arc<Control>,
    retry: Retry,
    /// Why places fell out.
    lost: Vec<Error>,
}

impl Plan {
    /// Looks at `locations`; asks nothing of servers but what registries are
    /// to say about references.
    pub(crate) fn new(
        locations: &[String],
        http: &HttpOptions,
        retry: Retry,
        control: &Arc<Control>,
    ) -> Result<Self, Error> {
        let mut plan = Self {
            places: Vec::new(),
            implied: None,
            control: Arc::clone(control),
            retry,
            lost: Vec::new(),
        };
        let mut client = None;
        for location in locations {
            if let Err(error) = plan.add(location, http, &mut client) {
                if control.running().is_err() {
                    return Err(control.take_failure());
                }
                tracing::warn!(
                    source = redact::url(location),
                    err = error.chain(),
                    "source failed"
                );
                plan.lost.push(error);
            }
        }
        if plan.places.is_empty() {
            return Err(none_left(plan.lost));
        }
        Ok(plan)
    }

    fn add(
        &mut self,
        location: &str,
        options: &HttpOptions,
        client: &mut Option<Arc<Http>>,
    ) -> Result<(), Error> {
        let place: Box<dyn Place> = match location.split_once("://") {
            Some(("http" | "https", _)) => {
                let client = Http::shared(client, options, self.retry, &self.control)?;
                Box::new(http::HttpPlace::new(client, location, options)?)
            }
            Some(("oci", _)) => {
                let client = Http::shared(client, options, self.retry, &self.control)?;
                let blob = registry::resolve(client, location, options)?;
                let place = Box::new(blob.place);
                self.imply(blob.implied)?;
                place
            }
            Some(("file", _)) => Box::new(file::FilePlace::open(file_path(location)?)?),
            Some(_) => return Err(unsupported(location)),
            None => Box::new(file::FilePlace::open(PathBuf::from(location))?),
        };
        self.places.push(place);
        Ok(())
    }

    /// Keeps the digest of a registry's blob; all registries must agree.
    fn imply(&mut self, implied: Implied) -> Result<(), Error> {
        match &self.implied {
            None => self.implied = Some(implied),
            Some(known) if known.hex == implied.hex => {}
            Some(known) => {
                let text = format!(
                    "{} has the digest {}, but {} has {}: they are different images",
                    implied.origin, implied.hex, known.origin, known.hex
                );
                return Err(Error::new(ErrorKind::Request, Stage::Check, text));
            }
        }
        Ok(())
    }

    /// The digest that the places themselves name.
    pub(crate) fn implied(&self) -> Option<&Implied> {
        self.implied.as_ref()
    }

    /// Opens the first place that answers.
    pub(crate) fn open(self) -> Result<Box<dyn Source>, Error> {
        let mut source = Mirrors::new(self.places, self.lost, self.retry, self.control);
        source.connect()?;
        Ok(Box::new(source))
    }
}

/// Opens the first of `locations` that is there.
pub(crate) fn open(
    locations: &[String],
    http: &HttpOptions,
    retry: Retry,
    control: &Arc<Control>,
) -> Result<Box<dyn Source>, Error> {
    Plan::new(locations, http, retry, control)?.open()
}

/// The options for a file beside the image, such as its checksums: the
/// credentials are the image server's and go nowhere else.
pub(crate) fn options_beside(url: &str, images: &[String], options: &HttpOptions) -> HttpOptions {
    let origin = |text: &str| Url::parse(text).ok().map(|url| url.origin());
    let wanted = origin(url);
    let same = wanted.is_some() && images.iter().any(|image| origin(image) == wanted);
    let mut options = options.clone();
    if !same {
        options.basic_auth = None;
        options.authorization = None;
    }
    options
}

/// Refuses a location that can never be opened.
pub(crate) fn check(location: &str) -> Result<(), Error> {
    match location.split_once("://") {
        Some(("http" | "https", _)) | None => Ok(()),
        Some(("file", _)) => file_path(location).map(drop),
        Some(("oci", _)) => registry::check(location),
        Some(_) => Err(unsupported(location)),
    }
}

/// Whether the location is a file, which is read anywhere at no cost.
pub(crate) fn is_local(location: &str) -> bool {
    location
        .split_once("://")
        .is_none_or(|(scheme, _)| scheme == "file")
}

/// The path of a location that is a file.
pub(crate) fn local_path(location: &str) -> Option<PathBuf> {
    match location.split_once("://") {
        None => Some(PathBuf::from(location)),
        Some(("file", _)) => file_path(location).ok(),
        Some(_) => None,
    }
}

/// Whether the location itself says what its bytes must be: a registry's
/// manifest holds the digest of the image.
pub(crate) fn names_digest(location: &str) -> bool {
    location.starts_with("oci://")
}

fn unsupported(location: &str) -> Error {
    let scheme = location.split("://").next().unwrap_or_default();
    let text = format!(
        "the scheme {scheme:?} of {} is not supported, use http, https, oci or file",
        redact::url(location)
    );
    Error::new(ErrorKind::Request, Stage::Check, text)
}

/// The path of a `file://` URL, which may name no other host (RFC 8089).
fn file_path(location: &str) -> Result<PathBuf, Error> {
    let rest = location.strip_prefix("file://").unwrap_or(location);
    let at = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(at);
    if path.is_empty() || !(host.is_empty() || host.eq_ignore_ascii_case("localhost")) {
        let text = format!("{location} names the host {host:?}; a file URL is file:///PATH");
        return Err(Error::new(ErrorKind::Request, Stage::Check, text));
    }
    Ok(PathBuf::from(OsString::from_vec(decode_percent_bytes(
        path,
    ))))
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::file_path;
    use super::options_beside;
    use crate::request::HttpOptions;
    use crate::request::Secret;

    #[test]
    fn file_urls_are_decoded_and_local() {
        assert_eq!(
            file_path("file:///srv/a%20b%2fc.raw").ok(),
            Some(PathBuf::from("/srv/a b/c.raw"))
        );
        assert_eq!(
            file_path("file://localhost/x").ok(),
            Some(PathBuf::from("/x"))
        );
        for bad in ["file://server/x", "file://x", "file://"] {
            assert!(file_path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn credentials_stay_with_the_image_server() {
        let options = HttpOptions {
            authorization: Some(Secret::new("Bearer x")),
            ..HttpOptions::default()
        };
        let images = ["https://a/img".to_owned()];
        let kept = |url| {
            options_beside(url, &images, &options)
                .authorization
                .is_some()
        };
        assert!(kept("https://a:443/SUMS"));
        assert!(!kept("https://a:444/SUMS"));
        assert!(!kept("http://a/SUMS"));
        assert!(!kept("https://b/SUMS"));
    }
}
