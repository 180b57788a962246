//! TLS between API and conductors: each end shows a certificate of the
//! installation's CA and takes nothing else from the other. TLS 1.3 alone:
//! both ends are ours.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs;
use rustls::server::ResolvesServerCert;
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls_pki_types::CertificateDer;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The CA's certificate, or what was made of it, was refused.
    #[error("the CA's certificate cannot be used for calls between API and conductors")]
    Ca(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The TLS library refused the settings.
    #[error("TLS between API and conductors cannot be set up")]
    Settings(#[source] rustls::Error),
}

/// The conductor's end: shows what `own` has and asks every caller for a
/// certificate that `ca` issued.
///
/// # Errors
/// See [`TlsError`].
pub fn server(
    ca: CertificateDer<'static>,
    own: Arc<dyn ResolvesServerCert>,
) -> Result<ServerConfig, TlsError> {
    let callers = WebPkiClientVerifier::builder_with_provider(roots(ca)?, provider());
    let callers = callers
        .build()
        .map_err(|error| TlsError::Ca(error.into()))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(TlsError::Settings)?
        .with_client_cert_verifier(callers)
        .with_cert_resolver(own);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The API's end: shows what `own` has and trusts conductors with a
/// certificate that `ca` issued for their name.
///
/// # Errors
/// See [`TlsError`].
pub fn client(
    ca: CertificateDer<'static>,
    own: Arc<dyn ResolvesClientCert>,
) -> Result<ClientConfig, TlsError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(TlsError::Settings)?
        .with_root_certificates(roots(ca)?)
        .with_client_cert_resolver(own);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn roots(ca: CertificateDer<'static>) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add(ca).map_err(|error| TlsError::Ca(error.into()))?;
    Ok(Arc::new(roots))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}
