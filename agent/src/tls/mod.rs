//! TLS of the agent: how it checks the API, and what it shows to the
//! conductor.

mod fingerprint;
mod identity;

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use wrought_image::HttpOptions;

pub use fingerprint::FingerprintVerifier;
pub use identity::Identity;

use crate::params::Trust;

/// TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The PEM text holds no certificate that can be used.
    #[error(
        "the CA certificate is not usable: expected PEM with at least one certificate, found {found}"
    )]
    Ca {
        /// What was found instead.
        found: String,
    },
    /// There is nothing to check the API's certificate against.
    #[error(
        "nothing was given to check the API's certificate against: expected wrought-ca-sha256= on the kernel command line, CA.PEM on virtual media, or ipa-insecure=1"
    )]
    NoTrust,
    /// The agent's own certificate could not be made.
    #[error("cannot make the agent's certificate")]
    Identity(#[source] rcgen::Error),
    /// Checks could not be switched off.
    #[error("cannot set up TLS without checks")]
    Insecure(#[source] wrought_image::Error),
    /// The library refuses the configuration.
    #[error("cannot set up TLS")]
    Config(#[source] rustls::Error),
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// What a connection to the API is checked with. Redirects, proxies and
/// public roots play no part.
pub fn client_config(trust: &Trust) -> Result<ClientConfig, TlsError> {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Config)?;
    let config = match trust {
        Trust::Nothing => return Err(TlsError::NoTrust),
        Trust::Insecure => {
            let options = HttpOptions {
                insecure: true,
                ..HttpOptions::default()
            };
            wrought_image::tls_config(&options).map_err(TlsError::Insecure)?
        }
        Trust::Fingerprint(digest) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(FingerprintVerifier::new(*digest, provider)))
            .with_no_client_auth(),
        Trust::Pem(pem) => builder
            .with_root_certificates(roots(pem)?)
            .with_no_client_auth(),
    };
    Ok(config)
}

fn roots(pem: &str) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| TlsError::Ca {
            found: error.to_string(),
        })?;
        roots.add(certificate).map_err(|error| TlsError::Ca {
            found: error.to_string(),
        })?;
    }
    if roots.is_empty() {
        return Err(TlsError::Ca {
            found: "none".to_owned(),
        });
    }
    Ok(roots)
}
