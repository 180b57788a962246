//! Trust in a CA that is known by its fingerprint alone.
//!
//! The server sends its CA as part of its chain. The verifier looks for the
//! certificate whose DER has the expected SHA-256, makes it the one trust
//! anchor, and leaves the rest to WebPKI: the chain from the leaf to that
//! anchor, the name, the dates. Sending the right CA beside a leaf that it
//! did not sign is of no use to anyone.

use std::fmt;
use std::sync::Arc;

use rustls::CertificateError;
use rustls::OtherError;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::danger::ServerCertVerified;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::crypto::verify_tls12_signature;
use rustls::crypto::verify_tls13_signature;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::ServerName;
use rustls::pki_types::UnixTime;
use sha2::Digest;
use sha2::Sha256;

/// Verifies servers against a CA known by the SHA-256 of its DER.
#[derive(Debug)]
pub struct FingerprintVerifier {
    digest: [u8; 32],
    provider: Arc<CryptoProvider>,
}

/// None of the certificates that the server sent is the CA.
struct NoMatch {
    expected: [u8; 32],
    found: Vec<[u8; 32]>,
}

impl std::error::Error for NoMatch {}

/// rustls shows foreign errors by their `Debug`.
impl fmt::Debug for NoMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for NoMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no certificate of the server has SHA-256 {}, found",
            Hex(&self.expected)
        )?;
        for (index, digest) in self.found.iter().enumerate() {
            write!(f, "{} {}", if index == 0 { "" } else { "," }, Hex(digest))?;
        }
        f.write_str(": compare wrought-ca-sha256 with the server's CA")
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn sha256(certificate: &CertificateDer<'_>) -> [u8; 32] {
    Sha256::digest(certificate.as_ref()).into()
}

impl FingerprintVerifier {
    /// A verifier for this fingerprint.
    pub fn new(digest: [u8; 32], provider: Arc<CryptoProvider>) -> Self {
        Self { digest, provider }
    }
}

impl ServerCertVerifier for FingerprintVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(anchor) = intermediates
            .iter()
            .find(|sent| sha256(sent) == self.digest)
        else {
            let found = [end_entity]
                .into_iter()
                .chain(intermediates)
                .map(sha256)
                .collect();
            let error = NoMatch {
                expected: self.digest,
                found,
            };
            return Err(CertificateError::Other(OtherError(Arc::new(error))).into());
        };
        let mut roots = RootCertStore::empty();
        roots.add(anchor.clone().into_owned())?;
        let webpki = WebPkiServerVerifier::builder_with_provider(
            Arc::new(roots),
            Arc::clone(&self.provider),
        )
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
        webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::BasicConstraints;
    use rcgen::CertificateParams;
    use rcgen::DnType;
    use rcgen::IsCa;
    use rcgen::Issuer;
    use rcgen::KeyPair;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::ServerName;
    use rustls::pki_types::UnixTime;

    use super::FingerprintVerifier;
    use super::sha256;
    use crate::tls::provider;

    struct Ca {
        der: CertificateDer<'static>,
        issuer: Issuer<'static, KeyPair>,
    }

    fn ca() -> Ca {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "Wrought CA");
        let der = params.self_signed(&key).unwrap().der().clone();
        Ca {
            der,
            issuer: Issuer::new(params, key),
        }
    }

    fn leaf(ca: &Ca, name: &str, expired: bool) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        if expired {
            params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        }
        params.signed_by(&key, &ca.issuer).unwrap().der().clone()
    }

    fn verify(
        digest: [u8; 32],
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
    ) -> Result<(), String> {
        let verifier = FingerprintVerifier::new(digest, provider());
        let name = ServerName::try_from("192.0.2.1").unwrap();
        verifier
            .verify_server_cert(leaf, rest, &name, &[], UnixTime::now())
            .map(|_| ())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn accepts_a_chain_to_the_known_ca() {
        let ca = ca();
        let leaf = leaf(&ca, "192.0.2.1", false);
        assert_eq!(
            verify(sha256(&ca.der), &leaf, std::slice::from_ref(&ca.der)),
            Ok(())
        );
    }

    #[test]
    fn refuses_everything_else() {
        let (good, evil) = (ca(), ca());
        let digest = sha256(&good.der);
        let right = leaf(&good, "192.0.2.1", false);

        let no_ca = verify(digest, &right, &[]).unwrap_err();
        assert!(
            no_ca.contains("no certificate of the server has SHA-256"),
            "{no_ca}"
        );
        let other_ca = verify(digest, &right, std::slice::from_ref(&evil.der)).unwrap_err();
        assert!(other_ca.contains("compare wrought-ca-sha256"), "{other_ca}");

        // The right CA beside a leaf that it did not sign.
        let forged = leaf(&evil, "192.0.2.1", false);
        let both = [good.der.clone(), evil.der.clone()];
        assert!(verify(digest, &forged, &both).is_err());
        // The CA itself in place of a leaf.
        assert!(verify(digest, &good.der, std::slice::from_ref(&good.der)).is_err());

        let name = leaf(&good, "192.0.2.2", false);
        assert!(verify(digest, &name, std::slice::from_ref(&good.der)).is_err());
        let expired = leaf(&good, "192.0.2.1", true);
        let error = verify(digest, &expired, std::slice::from_ref(&good.der)).unwrap_err();
        assert!(error.contains("expired"), "{error}");
    }
}
