//! The server side of TLS, with a certificate that is replaced while the
//! server runs: when its files change, or when it is about to end.

#[cfg(test)]
mod tests;

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::RwLock;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use rustls::ServerConfig;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::server::ClientHello;
use rustls::server::ResolvesServerCert;
use rustls::sign::CertifiedKey;
use serde::Deserialize;

use super::names::Names;
use crate::ca::leaf;
use crate::ca::leaf::Identity;
use crate::ca::leaf::Leaf;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// How often the certificate's end is looked at.
const RENEWAL: Duration = Duration::from_secs(24 * 3600);

/// The certificate in use.
#[derive(Debug)]
pub(crate) struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // A poisoned lock cannot happen: nothing under it panics.
        self.0.read().ok().map(|key| Arc::clone(&key))
    }
}

impl ResolvesClientCert for Current {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.read().ok().map(|key| Arc::clone(&key))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Where the certificate comes from.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) ca_dir: PathBuf,
    pub(crate) state_dir: PathBuf,
    pub(crate) names: Names,
}

impl Source {
    /// The certificate, issued anew when the stored one does not suit.
    pub(crate) fn identity(&self) -> Result<Identity> {
        let Names { all, told } = &self.names;
        Identity::load_or_issue(&self.ca_dir, &self.state_dir, all, told)
    }
}

/// A certificate of the operator's: `[tls]` in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    /// PEM: the certificate, then what leads to its CA.
    pub(crate) certificate: PathBuf,
    /// PEM: its key.
    pub(crate) key: PathBuf,
}

/// Where a certificate is read again.
enum Origin {
    /// By the installation's CA.
    Own(Source),
    Given(Given),
}

/// What tells that a file has changed: number, length and time; none: it is
/// not there.
type Stamp = Option<(u64, u64, i64, i64)>;

impl Origin {
    fn key(&self) -> Result<Arc<CertifiedKey>> {
        let leaf = match self {
            Self::Own(own) => own.identity()?.leaf,
            Self::Given(given) => Leaf::read(&given.certificate, &given.key)?,
        };
        certified(&leaf)
    }

    fn stamps(&self) -> Vec<Stamp> {
        let files = match self {
            Self::Own(own) => [&own.ca_dir, &own.state_dir]
                .into_iter()
                .flat_map(|folder| [folder.join(leaf::CERT), folder.join(leaf::KEY)])
                .collect(),
            Self::Given(given) => vec![given.certificate.clone(), given.key.clone()],
        };
        let stamp = |file: PathBuf| {
            let meta = std::fs::metadata(file).ok()?;
            Some((meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
        };
        files.into_iter().map(stamp).collect()
    }
}

fn certified(leaf: &Leaf) -> Result<Arc<CertifiedKey>> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let chain = leaf.chain()?;
    anyhow::ensure!(!chain.is_empty(), "the certificate file is empty");
    let key = CertifiedKey::from_der(chain, leaf.key()?, &provider)
        .context("the server's certificate and key do not belong together")?;
    Ok(Arc::new(key))
}

/// The certificate of this process, kept fresh for as long as this is there.
#[derive(Debug)]
pub(crate) struct Kept {
    current: Arc<Current>,
    refresh: tokio::task::JoinHandle<()>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.refresh.abort();
    }
}

impl Kept {
    /// Begins with what `identity` has.
    pub(crate) fn start(identity: &Identity, source: Source) -> Result<Self> {
        let origin = Origin::Own(source);
        let stamps = origin.stamps();
        Ok(Self::keep(certified(&identity.leaf)?, origin, stamps, LOOK))
    }

    /// Begins with the operator's files.
    pub(crate) fn given(given: Given) -> Result<Self> {
        Self::looking(Origin::Given(given), LOOK)
    }

    fn looking(origin: Origin, look: Duration) -> Result<Self> {
        // What changes after this is noticed.
        let stamps = origin.stamps();
        Ok(Self::keep(origin.key()?, origin, stamps, look))
    }

    fn keep(first: Arc<CertifiedKey>, origin: Origin, stamps: Vec<Stamp>, look: Duration) -> Self {
        let current = Arc::new(Current(RwLock::new(first)));
        let refresh = tokio::spawn(keep_fresh(origin, stamps, Arc::clone(&current), look));
        Self { current, refresh }
    }

    /// The certificate, for either end of a connection.
    pub(crate) fn certificate(&self) -> Arc<Current> {
        Arc::clone(&self.current)
    }

    /// What a listener for everybody shows.
    pub(crate) fn server(&self) -> Result<Arc<ServerConfig>> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("setting up TLS")?
            .with_no_client_auth()
            .with_cert_resolver(self.certificate());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// Loads the certificate again when its files have changed and then been left
/// alone for one look: two files are not replaced at once. A certificate that
/// cannot be used leaves the one before in use.
async fn keep_fresh(origin: Origin, stamps: Vec<Stamp>, current: Arc<Current>, look: Duration) {
    let (mut known, mut seen) = (stamps.clone(), stamps);
    let mut loaded = Instant::now();
    loop {
        tokio::time::sleep(look).await;
        // A few small files: not worth a thread.
        let now = origin.stamps();
        let changed = now != known && now == seen;
        seen.clone_from(&now);
        if !changed && loaded.elapsed() < RENEWAL {
            continue;
        }
        known = now;
        loaded = Instant::now();
        match origin.key() {
            Ok(key) => {
                if let Ok(mut slot) = current.0.write() {
                    if slot.cert != key.cert {
                        tracing::info!("the server's certificate has been replaced");
                    }
                    *slot = key;
                }
            }
            Err(error) => {
                tracing::error!("the server keeps the certificate that it has: {error:#}");
            }
        }
    }
}
