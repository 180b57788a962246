//! The server side of TLS, with a certificate that is replaced while the
//! server runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::RwLock;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use rustls::ServerConfig;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::server::ClientHello;
use rustls::server::ResolvesServerCert;
use rustls::sign::CertifiedKey;

use super::names::Names;
use crate::ca::leaf::Identity;
use crate::ca::leaf::Leaf;

/// How often the certificate's end is looked at.
const INTERVAL: Duration = Duration::from_secs(24 * 3600);

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

fn certified(leaf: &Leaf) -> Result<Arc<CertifiedKey>> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let key = CertifiedKey::from_der(leaf.chain()?, leaf.key()?, &provider)
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
        let current = Arc::new(Current(RwLock::new(certified(&identity.leaf)?)));
        let slot = Arc::clone(&current);
        let refresh = tokio::spawn(async move {
            loop {
                tokio::time::sleep(INTERVAL).await;
                // A few small files once a day: not worth a thread.
                let fresh = source
                    .identity()
                    .and_then(|identity| certified(&identity.leaf));
                match fresh {
                    Ok(key) => {
                        if let Ok(mut slot) = slot.0.write() {
                            *slot = key;
                        }
                    }
                    Err(error) => {
                        tracing::error!("the server's certificate could not be renewed: {error:#}");
                    }
                }
            }
        });
        Ok(Self { current, refresh })
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
