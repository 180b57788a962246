//! Images in OCI registries: `oci://HOST[:PORT]/NAME@sha256:…`.
//!
//! The manifest is checked against the reference's digest; it names the
//! digest of the one disk in it, which is then what the image is checked
//! against. The blob itself is read as from any HTTP server.

mod challenge;
mod manifest;
mod reference;
mod session;

use std::sync::Arc;

use manifest::Document;
use manifest::Layer;
use reference::Digest;
use reference::Reference;
use reference::Selector;
use reqwest::StatusCode;
use reqwest::Url;
use reqwest::header;
pub(super) use session::Session;

use super::Failed;
use super::client::Http;
use super::http::Credentials;
use super::http::HttpPlace;
use crate::checksum::Implied;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::request::HttpOptions;

/// Most bytes of a manifest; registries take no longer ones either.
const MANIFEST_LIMIT: usize = 4 << 20;
/// Indexes in indexes that are followed.
const DEPTH: usize = 3;

/// A disk in a registry.
pub(super) struct Blob {
    pub(super) place: HttpPlace,
    pub(super) implied: Implied,
}

/// Refuses a reference that cannot be one.
pub(super) fn check(location: &str) -> Result<(), Error> {
    Reference::parse(location, false).map(drop)
}

/// Finds out what a reference means.
pub(super) fn resolve(
    http: Arc<Http>,
    location: &str,
    options: &HttpOptions,
) -> Result<Blob, Error> {
    let reference = Reference::parse(location, options.plain_http_registries)?;
    let session = Session::new(&http, &reference, options);
    let mut lookup = Lookup {
        http: Arc::clone(&http),
        reference: &reference,
        session,
    };
    let (digest, layer) = lookup.disk()?;
    let pinned = reference.pinned(&digest);
    tracing::info!(
        image = pinned,
        blob = layer.digest.to_string(),
        bytes = layer.size,
        "image found in the registry"
    );
    let url = reference.url(&format!("blobs/{}", layer.digest))?;
    let credentials = Credentials::Registry(lookup.session);
    let mut place = HttpPlace::with(http, url, pinned.clone(), credentials);
    super::Place::expect(&mut place, layer.size);
    let implied = Implied {
        algorithm: layer.digest.algorithm,
        hex: layer.digest.hex,
        origin: format!("the manifest of {pinned}"),
        pinned: matches!(reference.selector, Selector::Digest(_)),
    };
    Ok(Blob { place, implied })
}

/// The way from a reference to its disk.
struct Lookup<'a> {
    http: Arc<Http>,
    reference: &'a Reference,
    session: Session,
}

impl Lookup<'_> {
    /// The digest of the reference's manifest, and the disk in it.
    fn disk(&mut self) -> Result<(Digest, Layer), Error> {
        let (found, mut document) = self.manifest(&self.reference.selector.clone())?;
        for _ in 0..DEPTH {
            match document {
                Document::Image(image) => {
                    let layer = image.disk().map_err(|text| self.error(&text))?;
                    return Ok((found, layer));
                }
                Document::Index(index) => {
                    let chosen = index
                        .choose(std::env::consts::ARCH)
                        .map_err(|text| self.error(&text))?;
                    document = self.manifest(&Selector::Digest(chosen))?.1;
                }
            }
        }
        Err(self.error("its index leads to further indexes without an end"))
    }

    /// Gets one manifest and checks it against its digest.
    fn manifest(&mut self, selector: &Selector) -> Result<(Digest, Document), Error> {
        let url = self.reference.url(&format!("manifests/{selector}"))?;
        let http = Arc::clone(&self.http);
        let bytes = http.persist(|| self.get(&url, selector))?;
        let found = match selector {
            Selector::Digest(wanted) => {
                let found = Digest::of(wanted.algorithm, &bytes);
                if found != *wanted {
                    return Err(self.error(&format!(
                        "the manifest that the registry sent has the digest {found}, expected \
                         {wanted}"
                    )));
                }
                found
            }
            Selector::Tag(_) => Digest::of(crate::request::Algorithm::Sha256, &bytes),
        };
        let document = Document::parse(&bytes).map_err(|text| self.error(&text))?;
        Ok((found, document))
    }

    fn get(&mut self, url: &Url, selector: &Selector) -> Result<Vec<u8>, Failed> {
        let mut renewed = false;
        loop {
            let request = self
                .session
                .add(self.http.get(url))
                .header(header::ACCEPT, manifest::ACCEPTED);
            let response = self.http.send(request, |text| self.error(text))?;
            let status = response.status();
            return match status {
                StatusCode::OK => self
                    .http
                    .body(response, MANIFEST_LIMIT, |text| self.error(text)),
                StatusCode::UNAUTHORIZED if !renewed => {
                    self.session.renew(&response)?;
                    renewed = true;
                    continue;
                }
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    Err(Failed::Final(self.session.denied()))
                }
                StatusCode::NOT_FOUND => Err(Failed::Final(
                    self.error(&format!("the registry has no manifest {selector} there")),
                )),
                _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                    let text = format!("the registry answered {status}");
                    Err(Failed::Again(self.error(&text).retryable()))
                }
                _ => {
                    let text = format!("the registry answered {status}");
                    Err(Failed::Final(self.error(&text)))
                }
            };
        }
    }

    fn error(&self, text: &str) -> Error {
        let text = format!("{}: {text}", self.reference);
        Error::new(ErrorKind::Source, Stage::Fetch, text)
    }
}
