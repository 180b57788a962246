//! The agent's own certificate: made at every start, sent with each heartbeat
//! as `agent_verify_ca`, pinned by the conductor.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use rcgen::CertificateParams;
use rcgen::DistinguishedName;
use rcgen::DnType;
use rcgen::KeyPair;
use rcgen::PKCS_ECDSA_P256_SHA256;
use rcgen::SanType;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::PrivatePkcs8KeyDer;

use crate::tls::TlsError;
use crate::tls::provider;

/// How far the conductor's clock may be behind ours.
const SKEW: Duration = Duration::from_secs(3600);
/// Longer than any ramdisk runs.
const LIFE: Duration = Duration::from_secs(90 * 86400);

/// A certificate with its key, ready to serve.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate, PEM.
    pub certificate_pem: String,
    /// Serves with it: TLS 1.2 and 1.3, HTTP/1.1.
    pub server_config: Arc<ServerConfig>,
}

impl Identity {
    /// Makes a P-256 key and a self-signed certificate for this address,
    /// valid from an hour ago.
    pub fn generate(address: IpAddr) -> Result<Self, TlsError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(TlsError::Identity)?;
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::IpAddress(address)];
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, "wrought-agent");
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        params.not_before = epoch + since_epoch.saturating_sub(SKEW);
        params.not_after = epoch + since_epoch + LIFE;
        let certificate = params.self_signed(&key).map_err(TlsError::Identity)?;

        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder
                    .with_no_client_auth()
                    .with_single_cert(vec![certificate.der().clone()], key)
            })
            .map_err(TlsError::Config)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            certificate_pem: certificate.pem(),
            server_config: Arc::new(config),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Identity;

    #[test]
    fn makes_a_certificate_for_the_address() {
        let identity = Identity::generate("2001:db8::7".parse().unwrap()).unwrap();
        assert!(
            identity
                .certificate_pem
                .starts_with("-----BEGIN CERTIFICATE-----")
        );
        let again = Identity::generate("2001:db8::7".parse().unwrap()).unwrap();
        assert_ne!(
            identity.certificate_pem, again.certificate_pem,
            "a key of its own each time"
        );
    }
}
