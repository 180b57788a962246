//! The expected digest of an image: from the request or from a sums file.

use std::fmt::Write;

use md5::Md5;
use sha2::Digest;
use sha2::Sha256;
use sha2::Sha512;

use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::redact;
use crate::request::Algorithm;
use crate::request::WriteRequest;

/// Most bytes of a sums file that are read.
pub(crate) const SUMS_LIMIT: usize = 4 << 20;

/// An expected digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) algorithm: Algorithm,
    /// Lower-case hex.
    pub(crate) hex: String,
    /// `request`, or the URL it was read from.
    pub(crate) origin: String,
}

/// Finds the expected digest of a request; `fetch` reads a sums file.
pub(crate) fn resolve(
    request: &WriteRequest,
    fetch: impl FnOnce(&str) -> Result<Vec<u8>, Error>,
) -> Result<Expected, Error> {
    let text = request.checksum.as_deref().unwrap_or_default().trim();
    let wanted = request.checksum_algorithm;
    let expected = if text.contains("://") {
        let origin = redact::url(text);
        let bytes = fetch(text)?;
        let name = base_name(request.sources.first().map_or("", String::as_str));
        let found = find(&String::from_utf8_lossy(&bytes), &name)
            .map_err(|problem| refuse(format!("the sums file {origin} {problem}")))?;
        let algorithm = pick(&found.hex, wanted.or(found.algorithm), &origin)?;
        Expected {
            algorithm,
            hex: found.hex,
            origin,
        }
    } else {
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
        let hex = hex.trim().to_ascii_lowercase();
        let algorithm = pick(&hex, named.or(wanted), "the request")?;
        Expected {
            algorithm,
            hex,
            origin: "request".to_owned(),
        }
    };
    if expected.algorithm == Algorithm::Md5 && !request.allow_md5 {
        return Err(refuse(format!(
            "the checksum from {} is MD5, which proves nothing any more; give a SHA-256 or \
             SHA-512 one, or allow MD5 explicitly",
            expected.origin
        )));
    }
    Ok(expected)
}

/// Refuses a checksum that is wrong in itself; the URL of a sums file only by
/// its scheme.
pub(crate) fn check(request: &WriteRequest) -> Result<(), Error> {
    let text = request.checksum.as_deref().unwrap_or_default().trim();
    if text.contains("://") {
        return crate::source::check(text);
    }
    resolve(request, |_| Ok(Vec::new())).map(drop)
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
             hex digits (sha256) or 128 (sha512)",
            hex.len()
        ))),
    }
}

fn refuse(text: String) -> Error {
    Error::new(ErrorKind::Checksum, Stage::Check, text)
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// File name at the end of a URL or path, percent-decoded.
pub(crate) fn base_name(source: &str) -> String {
    let path = match source.split_once("://") {
        Some((_, rest)) => rest.split(['?', '#']).next().unwrap_or_default(),
        None => source,
    };
    decode_percent(path.rsplit('/').next().unwrap_or_default())
}

/// `%41` to `A`; anything malformed stays as it is.
pub(crate) fn decode_percent(text: &str) -> String {
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
    String::from_utf8_lossy(&out).into_owned()
}

/// A line of a sums file that fits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Lower-case hex.
    pub(crate) hex: String,
    /// Algorithm that a BSD line names.
    pub(crate) algorithm: Option<Algorithm>,
}

/// Finds the digest of `name` in a sums file: GNU (`HEX *NAME`), BSD
/// (`SHA256 (NAME) = HEX`) or a single bare digest. Names are compared by
/// their last path element.
pub(crate) fn find(text: &str, name: &str) -> Result<Found, String> {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    if lines.is_empty() {
        return Err("is empty".to_owned());
    }
    let mut listed = Vec::new();
    for line in &lines {
        let Some((found, path)) = entry(line) else {
            continue;
        };
        let listed_name = path.rsplit('/').next().unwrap_or(path);
        if listed_name == name {
            return Ok(found);
        }
        listed.push(listed_name.to_owned());
    }
    match lines.as_slice() {
        [bare] if is_hex(bare) => Ok(Found {
            hex: bare.to_ascii_lowercase(),
            algorithm: None,
        }),
        _ => {
            listed.truncate(5);
            Err(format!(
                "does not list {name:?}; it lists {}",
                listed.join(", ")
            ))
        }
    }
}

/// One line with a name.
fn entry(line: &str) -> Option<(Found, &str)> {
    if let Some((head, hex)) = line.rsplit_once('=')
        && let Some((label, path)) = head
            .trim_end()
            .strip_suffix(')')
            .and_then(|h| h.split_once('('))
        && is_hex(hex.trim())
    {
        let algorithm = Algorithm::from_name(label.trim());
        return Some((
            Found {
                hex: hex.trim().to_ascii_lowercase(),
                algorithm,
            },
            path.trim(),
        ));
    }
    let (hex, path) = line.split_once([' ', '\t'])?;
    // GNU escapes odd names with a leading backslash.
    let hex = hex.strip_prefix('\\').unwrap_or(hex);
    let path = path.trim_start();
    let path = path.strip_prefix('*').unwrap_or(path);
    is_hex(hex).then(|| {
        (
            Found {
                hex: hex.to_ascii_lowercase(),
                algorithm: None,
            },
            path,
        )
    })
}

/// A running digest of any of the algorithms.
#[derive(Debug)]
pub(crate) enum Hasher {
    Md5(Md5),
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Md5 => Self::Md5(Md5::new()),
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            Algorithm::Sha512 => Self::Sha512(Sha512::new()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Md5(hasher) => hasher.update(bytes),
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    /// Lower-case hex of the digest.
    pub(crate) fn finish(self) -> String {
        match self {
            Self::Md5(hasher) => hex(&hasher.finalize()),
            Self::Sha256(hasher) => hex(&hasher.finalize()),
            Self::Sha512(hasher) => hex(&hasher.finalize()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests;
