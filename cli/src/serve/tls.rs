//! The server side of TLS, with a certificate that is replaced while the
//! server runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::RwLock;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use rustls::ServerConfig;
use rustls::server::ClientHello;
use rustls::server::ResolvesServerCert;
use rustls::sign::CertifiedKey;

use crate::ca::leaf::Identity;
use crate::ca::leaf::Leaf;
use crate::ca::leaf::Name;

/// How often the certificate's end is looked at.
const INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// The certificate in use.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // A poisoned lock cannot happen: nothing under it panics.
        self.0.read().ok().map(|key| Arc::clone(&key))
    }
}

/// Where the certificate comes from.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) ca_dir: PathBuf,
    pub(crate) state_dir: PathBuf,
    pub(crate) names: Vec<Name>,
}

impl Source {
    /// The certificate, issued anew when the stored one does not suit.
    pub(crate) fn identity(&self) -> Result<Identity> {
        Identity::load_or_issue(&self.ca_dir, &self.state_dir, &self.names)
    }
}

fn certified(leaf: &Leaf) -> Result<Arc<CertifiedKey>> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let key = CertifiedKey::from_der(leaf.chain()?, leaf.key()?, &provider)
        .context("the server's certificate and key do not belong together")?;
    Ok(Arc::new(key))
}

/// The configuration for the listener, and the task that keeps its certificate
/// fresh until it is aborted.
pub(crate) fn server(
    identity: &Identity,
    source: Source,
) -> Result<(Arc<ServerConfig>, tokio::task::JoinHandle<()>)> {
    let current = Arc::new(Current(RwLock::new(certified(&identity.leaf)?)));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("setting up TLS")?
        .with_no_client_auth()
        .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let refresh = tokio::spawn(async move {
        loop {
            tokio::time::sleep(INTERVAL).await;
            // A few small files once a day: not worth a thread.
            let fresh = source
                .identity()
                .and_then(|identity| certified(&identity.leaf));
            match fresh {
                Ok(key) => {
                    if let Ok(mut slot) = current.0.write() {
                        *slot = key;
                    }
                }
                Err(error) => {
                    tracing::error!("the server's certificate could not be renewed: {error:#}");
                }
            }
        }
    });
    Ok((Arc::new(config), refresh))
}
