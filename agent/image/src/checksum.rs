//! The expected digest of an image: from the request, from a sums file, or
//! from the registry that holds it.

mod hasher;
mod sums;

pub(crate) use hasher::Hasher;

use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::redact;
use crate::request::Algorithm;
use crate::request::WriteRequest;
use crate::source;

/// Most bytes of a sums file that are read.
pub(crate) const SUMS_LIMIT: usize = 4 << 20;

/// An expected digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) algorithm: Algorithm,
    /// Lower-case hex.
    pub(crate) hex: String,
    /// `request`, the URL it was read from, or the manifest that names it.
    pub(crate) origin: String,
}

/// A digest that the source itself names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Implied {
    pub(crate) algorithm: Algorithm,
    /// Lower-case hex.
    pub(crate) hex: String,
    /// What names it.
    pub(crate) origin: String,
    /// Whether what was asked for fixes the digest; a tag does not.
    pub(crate) pinned: bool,
}

/// Finds the expected digest of a request; `fetch` reads a sums file.
pub(crate) fn resolve(
    request: &WriteRequest,
    implied: Option<&Implied>,
    fetch: impl FnOnce(&str) -> Result<Vec<u8>, Error>,
) -> Result<Expected, Error> {
    let text = request.checksum.as_deref().unwrap_or_default().trim();
    let expected = match implied {
        Some(implied) if text.is_empty() => return from_registry(implied),
        _ if text.contains("://") => from_sums(request, text, fetch)?,
        _ => from_text(request, text)?,
    };
    if expected.algorithm == Algorithm::Md5 && !request.allow_md5 {
        return Err(refuse(format!(
            "the checksum from {} is MD5, which proves nothing any more; give a SHA-256 or \
             SHA-512 one, or allow MD5 explicitly (--allow-md5, or agent_md5_checksum_enable of \
             the conductor)",
            expected.origin
        )));
    }
    match implied {
        Some(implied) => agreed(expected, implied),
        None => Ok(expected),
    }
}

fn from_registry(implied: &Implied) -> Result<Expected, Error> {
    if !implied.pinned {
        return Err(refuse(format!(
            "a tag can be moved to another image, and no checksum was given; name the image by \
             its digest (now {}), or give a checksum",
            implied.origin.trim_start_matches("the manifest of ")
        )));
    }
    Ok(Expected {
        algorithm: implied.algorithm,
        hex: implied.hex.clone(),
        origin: implied.origin.clone(),
    })
}

/// A checksum beside a registry's own must be the same one.
fn agreed(expected: Expected, implied: &Implied) -> Result<Expected, Error> {
    let Implied {
        algorithm,
        hex,
        origin,
        ..
    } = implied;
    if expected.algorithm != *algorithm {
        return Err(refuse(format!(
            "the checksum from {} is {}, but {origin} has a {algorithm} one; give that one, or \
             none, as the manifest names it",
            expected.origin, expected.algorithm
        )));
    }
    if expected.hex != *hex {
        return Err(refuse(format!(
            "the checksum from {} is {}, but {origin} says {hex}: the checksum belongs to another \
             image",
            expected.origin, expected.hex
        )));
    }
    Ok(expected)
}

fn from_sums(
    request: &WriteRequest,
    url: &str,
    fetch: impl FnOnce(&str) -> Result<Vec<u8>, Error>,
) -> Result<Expected, Error> {
    let origin = redact::url(url);
    let bytes = fetch(url)?;
    let paths: Vec<String> = request.sources.iter().map(|s| path_of(s)).collect();
    let wanted = request.checksum_algorithm;
    let found = sums::find(&sums::text(&bytes), &paths, wanted)
        .map_err(|problem| refuse(format!("the sums file {origin} {problem}")))?;
    let algorithm = pick(&found.hex, wanted.or(found.algorithm), &origin)?;
    Ok(Expected {
        algorithm,
        hex: found.hex,
        origin,
    })
}

fn from_text(request: &WriteRequest, text: &str) -> Result<Expected, Error> {
    let wanted = request.checksum_algorithm;
    let (named, hex) = match text.split_once(':') {
        Some((name, hex)) => {
            let algorithm = Algorithm::from_name(name).ok_or_else(|| {
                refuse(format!(
                    "the checksum algorithm {name:?} is not known, use sha256 or sha512"
                ))
            })?;
            (Some(algorithm), hex)
        }
        None => (None, text),
    };
    if let (Some(named), Some(wanted)) = (named, wanted)
        && named != wanted
    {
        return Err(refuse(format!(
            "the checksum is said to be {wanted} and {named} at once"
        )));
    }
    let hex = hex.trim().to_ascii_lowercase();
    let algorithm = pick(&hex, named.or(wanted), "the request")?;
    Ok(Expected {
        algorithm,
        hex,
        origin: "request".to_owned(),
    })
}

/// The digest of the file `name` in a sums file, for fuzzing.
pub(crate) fn find_hex(text: &str, name: &str) -> Result<String, String> {
    sums::find(text, &[name.to_owned()], None).map(|found| found.hex)
}

/// Refuses a checksum that is wrong in itself; the URL of a sums file only by
/// its scheme.
pub(crate) fn check(request: &WriteRequest) -> Result<(), Error> {
    let text = request.checksum.as_deref().unwrap_or_default().trim();
    if text.starts_with("oci://") {
        return Err(refuse(
            "a sums file is a file on a server, a registry's image has no such file".to_owned(),
        ));
    }
    if text.contains("://") {
        return source::check(text);
    }
    if text.is_empty() && request.sources.iter().any(|s| source::names_digest(s)) {
        return Ok(());
    }
    resolve(request, None, |_| Ok(Vec::new())).map(drop)
}

/// The algorithm of `hex`, checked against what was said about it.
fn pick(hex: &str, said: Option<Algorithm>, origin: &str) -> Result<Algorithm, Error> {
    let by_length = Algorithm::from_hex_len(hex.len()).filter(|_| is_hex(hex));
    match (by_length, said) {
        (Some(found), None) => Ok(found),
        (Some(found), Some(said)) if found == said => Ok(found),
        (Some(found), Some(said)) => Err(refuse(format!(
            "the checksum from {origin} is said to be {said} ({} hex digits) but has the length \
             of {found} ({} hex digits)",
            said.hex_len(),
            hex.len()
        ))),
        (None, _) => Err(refuse(format!(
            "the checksum from {origin} is {} characters long and not a hex digest; expected 64 \
             hex digits (sha256) or 128 (sha512){}",
            hex.len(),
            if hex.contains(['/', '.']) {
                ", or the URL of a sums file, with its scheme (file:///PATH for a local one)"
            } else {
                ""
            }
        ))),
    }
}

fn refuse(text: String) -> Error {
    Error::new(ErrorKind::Checksum, Stage::Check, text)
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The path of a URL, percent-decoded, or the path that was given.
fn path_of(source: &str) -> String {
    match source.split_once("://") {
        Some((_, rest)) => {
            let path = rest.split(['?', '#']).next().unwrap_or_default();
            String::from_utf8_lossy(&decode_percent_bytes(path)).into_owned()
        }
        None => source.to_owned(),
    }
}

/// `%41` to `A`; anything malformed stays as it is.
pub(crate) fn decode_percent_bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let pair = tail.get(..2).filter(|_| *first == b'%');
        let code = pair
            .and_then(|pair| std::str::from_utf8(pair).ok())
            .filter(|pair| is_hex(pair))
            .and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match code {
            Some(byte) => {
                out.push(byte);
                rest = &tail[2..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
