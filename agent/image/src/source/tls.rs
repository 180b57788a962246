//! TLS towards image servers.

use std::sync::Arc;

use rustls::CertificateError;
use rustls::ClientConfig;
use rustls::DigitallySignedStruct;
use rustls::RootCertStore;
use rustls::SignatureScheme;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::danger::ServerCertVerified;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::ServerName;
use rustls::pki_types::UnixTime;
use rustls::pki_types::pem::PemObject;

use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::request::HttpOptions;

/// Where distributions keep their authorities.
const SYSTEM_BUNDLES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// The configuration that a request asks for.
pub(crate) fn config(options: &HttpOptions) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = verifier(options, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| fail("set up TLS").caused_by(error))?;
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

fn verifier(
    options: &HttpOptions,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    if options.insecure {
        return Ok(accept_any(Arc::clone(provider)));
    }
    let roots = roots(options)?;
    let mut verifiers = options.also_trusted.clone();
    if !roots.is_empty() {
        let provider = Arc::clone(provider);
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| fail("use the image server CAs").caused_by(error))?;
        verifiers.push(verifier);
    }
    Ok(match verifiers.as_slice() {
        [one] => Arc::clone(one),
        _ => Arc::new(AnyOf {
            verifiers,
            provider: Arc::clone(provider),
        }),
    })
}

/// The request's authorities and the system's.
fn roots(options: &HttpOptions) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for pem in &options.extra_ca_pem {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let certificates =
            certificates.map_err(|error| fail("read an image server CA").caused_by(error))?;
        if certificates.is_empty() {
            return Err(fail("an image server CA file holds no PEM certificate"));
        }
        for certificate in certificates {
            roots
                .add(certificate)
                .map_err(|error| fail("use an image server CA").caused_by(error))?;
        }
    }
    for path in SYSTEM_BUNDLES {
        if let Ok(certificates) = CertificateDer::pem_file_iter(path) {
            roots.add_parsable_certificates(certificates.flatten());
            break;
        }
    }
    Ok(roots)
}

fn fail(text: &str) -> Error {
    Error::new(ErrorKind::Request, Stage::Check, text)
}

/// Accepts what one of several verifiers accepts.
#[derive(Debug)]
struct AnyOf {
    verifiers: Vec<Arc<dyn ServerCertVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyOf {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let mut reason = unknown.clone();
        for verifier in &self.verifiers {
            let verified = verifier.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
            match verified {
                Ok(verified) => return Ok(verified),
                // "Not mine" of one says less than "expired" of another.
                Err(error) if reason == unknown => reason = error,
                Err(_) => {}
            }
        }
        Err(reason)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// A verifier that accepts every certificate: the operator switched
/// verification off. An image's digest still decides what is written.
fn accept_any(provider: Arc<CryptoProvider>) -> Arc<dyn ServerCertVerifier> {
    Arc::new(AcceptAny(provider))
}

#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
