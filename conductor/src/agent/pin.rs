//! TLS to exactly one peer: the leaf must be, byte for byte, the certificate
//! that the agent sent in its heartbeat, and the handshake must be signed by
//! its key. Chain, name and dates say nothing about a self-signed certificate
//! and are not looked at.

use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use rustls::ClientConfig;
use rustls::DigitallySignedStruct;
use rustls::RootCertStore;
use rustls::SignatureScheme;
use rustls::client::Resumption;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::danger::ServerCertVerified;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs;
use rustls::crypto::verify_tls12_signature;
use rustls::crypto::verify_tls13_signature;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::ServerName;
use rustls_pki_types::UnixTime;
use rustls_pki_types::pem::PemObject;

/// Why a certificate cannot be pinned.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The text is no certificate.
    #[error("agent_verify_ca holds no PEM certificate")]
    NotPem(#[source] rustls_pki_types::pem::Error),
    /// The TLS library refused the settings.
    #[error("TLS to the agent cannot be set up")]
    Tls(#[source] rustls::Error),
}

/// Tells, after a failed handshake, whether another certificate was the reason.
#[derive(Debug, Clone, Default)]
pub struct Mismatch(Arc<AtomicBool>);

impl Mismatch {
    /// Whether the peer showed another certificate since the last question.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

/// A TLS client that accepts nobody: for agents that are reached over plain
/// HTTP. Without one the HTTP library reads the system's certificates anew for
/// every client, which takes longer than the request.
pub fn nobody() -> Result<ClientConfig, PinError> {
    Ok(ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(PinError::Tls)?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth())
}

/// The TLS library's algorithms, one set for all clients.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(aws_lc_rs::default_provider()));
    Arc::clone(&PROVIDER)
}

/// A TLS client that accepts the certificate `pem` and no other.
pub fn pinned(pem: &str) -> Result<(ClientConfig, Mismatch), PinError> {
    let leaf = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(PinError::NotPem)?;
    let provider = provider();
    let mismatch = Mismatch::default();
    let verifier = Pinned {
        leaf,
        provider: Arc::clone(&provider),
        mismatch: mismatch.clone(),
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(PinError::Tls)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    // A client is for one agent and seldom connects twice.
    config.resumption = Resumption::disabled();
    Ok((config, mismatch))
}

#[derive(Debug)]
struct Pinned {
    leaf: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
    mismatch: Mismatch,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if end_entity.as_ref() == self.leaf.as_ref() {
            return Ok(ServerCertVerified::assertion());
        }
        self.mismatch.0.store(true, Ordering::SeqCst);
        Err(rustls::CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, schemes)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
