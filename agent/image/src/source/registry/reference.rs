//! References to images in registries.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;

use crate::checksum::Hasher;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::redact;
use crate::request::Algorithm;

/// A digest as registries write it: `sha256:HEX`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Digest {
    pub(super) algorithm: Algorithm,
    /// Lower-case hex.
    pub(super) hex: String,
}

impl Digest {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (name, hex) = text.split_once(':')?;
        let algorithm = match name {
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            _ => return None,
        };
        let right = hex.len() == algorithm.hex_len()
            && hex
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        right.then(|| Self {
            algorithm,
            hex: hex.to_owned(),
        })
    }

    pub(super) fn of(algorithm: Algorithm, bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(bytes);
        Self {
            algorithm,
            hex: hasher.finish(),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, self.hex)
    }
}

/// Which manifest of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Selector {
    Digest(Digest),
    Tag(String),
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digest(digest) => digest.fmt(f),
            Self::Tag(tag) => f.write_str(tag),
        }
    }
}

/// A checked `oci://` URL.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    /// `https://HOST[:PORT]/`.
    pub(super) base: Url,
    /// `HOST[:PORT]` as it was given.
    pub(super) host: String,
    pub(super) repository: String,
    pub(super) selector: Selector,
}

impl Reference {
    /// Reads `oci://HOST[:PORT]/NAME@DIGEST` or `…/NAME:TAG`. The registry is
    /// spoken to in plain HTTP when `plain_http` says so or when it is on
    /// this machine.
    pub(super) fn parse(location: &str, plain_http: bool) -> Result<Self, Error> {
        let refuse = |problem: &str| {
            let text = format!(
                "{}: {problem}; an image in a registry is \
                 oci://HOST[:PORT]/NAME@sha256:DIGEST",
                redact::url(location)
            );
            Error::new(ErrorKind::Request, Stage::Check, text)
        };
        let rest = location.strip_prefix("oci://").unwrap_or(location);
        let (host, path) = rest
            .split_once('/')
            .ok_or_else(|| refuse("it has no name of an image"))?;
        if host.contains('@') {
            return Err(refuse("credentials do not belong in it (--user)"));
        }
        let mut base = Url::parse(&format!("https://{host}/"))
            .map_err(|_| refuse("its host or port is not one"))?;
        if plain_http || is_loopback(&base) {
            // Between http and https this always works.
            base.set_scheme("http").ok();
        }
        let (repository, selector) = match path.split_once('@') {
            Some((name, digest)) => {
                let digest = Digest::parse(digest)
                    .ok_or_else(|| refuse("its digest is not sha256: and 64 hex digits"))?;
                // A tag beside a digest means nothing.
                let name = name.split_once(':').map_or(name, |(name, _)| name);
                (name, Selector::Digest(digest))
            }
            None => match path.split_once(':') {
                Some((name, tag)) if is_tag(tag) => (name, Selector::Tag(tag.to_owned())),
                Some(_) => return Err(refuse("its tag is not one")),
                None => return Err(refuse("it has no digest")),
            },
        };
        if !is_repository(repository) {
            return Err(refuse(
                "its name is not one: lower-case letters, digits, and . _ - / between them",
            ));
        }
        Ok(Self {
            base,
            host: host.to_owned(),
            repository: repository.to_owned(),
            selector,
        })
    }

    /// A URL of the repository.
    pub(super) fn url(&self, path: &str) -> Result<Url, Error> {
        let path = format!("v2/{}/{path}", self.repository);
        self.base.join(&path).map_err(|error| {
            let text = format!("make the URL of {self}");
            Error::new(ErrorKind::Request, Stage::Check, text).caused_by(error)
        })
    }

    /// The same reference by the digest of its manifest.
    pub(super) fn pinned(&self, digest: &Digest) -> String {
        format!("oci://{}/{}@{digest}", self.host, self.repository)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.selector {
            Selector::Digest(_) => '@',
            Selector::Tag(_) => ':',
        };
        write!(
            f,
            "oci://{}/{}{sign}{}",
            self.host, self.repository, self.selector
        )
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Path elements of lower-case letters and digits with separators inside.
fn is_repository(name: &str) -> bool {
    name.len() <= 255
        && name.split('/').all(|element| {
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            let bytes = element.as_bytes();
            bytes.first().copied().is_some_and(plain)
                && bytes.last().copied().is_some_and(plain)
                && bytes
                    .iter()
                    .all(|byte| plain(*byte) || matches!(byte, b'.' | b'_' | b'-'))
        })
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(word)
        && tag
            .bytes()
            .all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read() {
        let hex = "a".repeat(64);
        let parse = |text: &str| Reference::parse(text, false).unwrap();
        let by_digest = parse(&format!("oci://r.example:5000/os/debian@sha256:{hex}"));
        assert_eq!(
            by_digest.url("blobs/x").unwrap().as_str(),
            "https://r.example:5000/v2/os/debian/blobs/x"
        );
        assert_eq!(by_digest.host, "r.example:5000");
        let both = parse(&format!("oci://r.example/debian:13@sha256:{hex}"));
        assert_eq!(
            (both.repository.as_str(), both.selector.to_string()),
            ("debian", format!("sha256:{hex}"))
        );
        let tag = parse("oci://[::1]:5000/debian:13.1");
        assert_eq!(tag.to_string(), "oci://[::1]:5000/debian:13.1");
        for (text, plain_http, scheme) in [
            ("oci://[::1]:5000/d:1", false, "http"),
            ("oci://localhost/d:1", false, "http"),
            ("oci://127.example/d:1", false, "https"),
            ("oci://r/d:1", false, "https"),
            ("oci://r/d:1", true, "http"),
        ] {
            let reference = Reference::parse(text, plain_http).unwrap();
            assert_eq!(reference.base.scheme(), scheme, "{text}");
        }
    }

    #[test]
    fn what_is_no_reference_says_how_one_looks() {
        let hex = "a".repeat(64);
        for bad in [
            "oci://host",
            "oci://host/",
            "oci://host/name",
            "oci://host/Name:tag",
            "oci://host/../x:tag",
            "oci://host/a//b:tag",
            "oci://host/name:",
            "oci://host/name@sha256:12",
            &format!("oci://host/name@md5:{hex}"),
            &format!("oci://host/name@sha256:{}", hex.to_uppercase()),
            &format!("oci://u:secret@host/name@sha256:{hex}"),
            "oci://ho st/name:tag",
        ] {
            let error = Reference::parse(bad, false).unwrap_err().to_string();
            assert!(
                error.contains("NAME@sha256:DIGEST") && !error.contains("secret"),
                "{bad}: {error}"
            );
        }
    }
}
