//! Whether a certificate will do, asked of the same code that clients use.

use std::sync::Arc;

use anyhow::Context;
use anyhow::Result;
use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::ServerName;
use rustls_pki_types::UnixTime;

use super::leaf::Name;

/// Checks that the chain is trusted by someone who trusts `ca`, at that time,
/// for every name.
pub(crate) fn verify(
    chain: &[CertificateDer<'static>],
    ca: &CertificateDer<'static>,
    names: &[Name],
    at: Timestamp,
) -> Result<()> {
    let (leaf, rest) = chain
        .split_first()
        .context("the certificate file is empty")?;
    let mut roots = RootCertStore::empty();
    roots
        .add(ca.clone())
        .context("the CA's certificate cannot be used")?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .context("the CA's certificate cannot be used")?;
    let seconds = u64::try_from(at.as_second()).unwrap_or(0);
    let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    for name in names {
        let name: ServerName<'_> = name.to_server_name()?;
        verifier
            .verify_server_cert(leaf, rest, &name, &[], at)
            .with_context(|| format!("the certificate does not hold for {}", name.to_str()))?;
    }
    Ok(())
}
