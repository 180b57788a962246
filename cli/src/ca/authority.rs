//! The CA: made once, kept as two files.

use std::path::Path;

use anyhow::Context;
use anyhow::Result;
use jiff::Span;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rcgen::BasicConstraints;
use rcgen::CertificateParams;
use rcgen::DistinguishedName;
use rcgen::DnType;
use rcgen::ExtendedKeyUsagePurpose;
use rcgen::IsCa;
use rcgen::Issuer;
use rcgen::KeyPair;
use rcgen::KeyUsagePurpose;
use rcgen::PublicKeyData;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use sha2::Digest;
use sha2::Sha256;

use super::check;
use super::leaf::Leaf;
use super::leaf::Name;
use crate::private;

/// File name of the certificate in the CA's folder.
pub(crate) const CERT: &str = "ca.pem";
/// File name of the key in the CA's folder.
pub(crate) const KEY: &str = "ca.key";

/// Days that the CA's certificate is good for: longer than hardware lives.
const CA_DAYS: i64 = 30 * 365;
/// Days that an issued certificate is good for.
const LEAF_DAYS: i64 = 397;

/// The largest PEM file that is read.
const PEM_LIMIT: u64 = 64 * 1024;

/// A CA that can issue.
pub(crate) struct Authority {
    pem: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// The CA of that folder, which is made if there is none.
    pub(crate) fn load_or_make(folder: &Path) -> Result<Self> {
        match Self::load(folder)? {
            Some(authority) => Ok(authority),
            None => Self::make(folder),
        }
    }

    /// The CA of that folder if its key is there.
    pub(crate) fn load(folder: &Path) -> Result<Option<Self>> {
        let (cert, key) = (folder.join(CERT), folder.join(KEY));
        if !key.exists() {
            return Ok(None);
        }
        let key = private::read(&key, PEM_LIMIT)?;
        let key = KeyPair::from_pem(&key)
            .with_context(|| format!("reading the CA's key {}", folder.join(KEY).display()))?;
        // The key is written first: without a certificate the making was cut
        // short, and the certificate follows from the key.
        if !cert.exists() {
            return Self::finish(folder, key).map(Some);
        }
        let (pem, der) = read_cert(&cert)?;
        let issuer = Issuer::new(params(&key), key);
        let authority = Self { pem, der, issuer };
        let probe = Name::parse("localhost")?;
        authority.issue(&[probe]).with_context(|| {
            format!(
                "{} and {} do not belong together, or were not made by `wrought ca init`",
                cert.display(),
                folder.join(KEY).display()
            )
        })?;
        Ok(Some(authority))
    }

    fn make(folder: &Path) -> Result<Self> {
        let cert = folder.join(CERT);
        anyhow::ensure!(
            !cert.exists(),
            "{} is there without its key: put ca.key beside it, or a certificate for this server issued by `wrought ca issue`",
            cert.display()
        );
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)
            .context("generating the CA's key")?;
        private::write(&folder.join(KEY), &key.serialize_pem())?;
        Self::finish(folder, key)
    }

    fn finish(folder: &Path, key: KeyPair) -> Result<Self> {
        let mut params = params(&key);
        set_validity(&mut params, CA_DAYS)?;
        let cert = params
            .self_signed(&key)
            .context("signing the CA's certificate")?;
        let pem = cert.pem();
        private::write(&folder.join(CERT), &pem)?;
        Ok(Self {
            pem,
            der: cert.der().clone(),
            issuer: Issuer::new(params, key),
        })
    }

    /// The certificate as PEM.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// Hex SHA-256 of the certificate's DER.
    pub(crate) fn fingerprint(&self) -> String {
        fingerprint(&self.der)
    }

    /// A new key with a certificate for these names, checked as a client will
    /// check it.
    pub(crate) fn issue(&self, names: &[Name]) -> Result<Leaf> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)
            .context("generating the server's key")?;
        let mut params = CertificateParams::default();
        params.subject_alt_names = names.iter().map(Name::to_san).collect::<Result<Vec<_>>>()?;
        let first = names.first().context("a certificate needs a name")?;
        params.distinguished_name = DistinguishedName::new();
        // A common name has at most 64 characters.
        let common: String = first.to_string().chars().take(64).collect();
        params.distinguished_name.push(DnType::CommonName, common);
        set_validity(&mut params, LEAF_DAYS)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        let cert = params
            .signed_by(&key, &self.issuer)
            .context("signing the certificate")?;
        let leaf = Leaf {
            chain_pem: format!("{}{}", cert.pem(), self.pem),
            key_pem: key.serialize_pem(),
        };
        check::verify(&leaf.chain()?, &self.der, names, Timestamp::now())?;
        Ok(leaf)
    }
}

/// Whether a folder has a CA, or at least its certificate.
pub(crate) fn is_in(folder: &Path) -> bool {
    [CERT, KEY].iter().any(|name| folder.join(name).exists())
}

/// Reads the certificate of a CA: its PEM and DER.
pub(crate) fn read_cert(path: &Path) -> Result<(String, CertificateDer<'static>)> {
    let pem = private::read(path, PEM_LIMIT)?;
    let der = CertificateDer::from_pem_slice(pem.as_bytes())
        .with_context(|| format!("reading the CA's certificate {}", path.display()))?;
    Ok((pem, der))
}

/// Hex SHA-256 of a certificate's DER, as on the agent's command line.
pub(crate) fn fingerprint(der: &CertificateDer<'_>) -> String {
    hex(&Sha256::digest(der))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The CA's parameters. All but the dates follow from the key, so that the
/// issuer's name can be told without parsing the certificate.
fn params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let id = hex(&Sha256::digest(key.der_bytes())[..8]);
    params
        .distinguished_name
        .push(DnType::CommonName, format!("Wrought CA {id}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// From yesterday, for clocks that are behind, to so many days from now.
fn set_validity(params: &mut CertificateParams, days: i64) -> Result<()> {
    let now = TimeZone::UTC.to_datetime(Timestamp::now());
    let date = |days: i64| -> Result<_> {
        let day = now
            .checked_add(Span::new().days(days))
            .context("the clock is far off")?;
        let (month, date) = (u8::try_from(day.month())?, u8::try_from(day.day())?);
        Ok(rcgen::date_time_ymd(i32::from(day.year()), month, date))
    };
    params.not_before = date(-1)?;
    params.not_after = date(days)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::Authority;
    use super::CERT;
    use super::KEY;
    use crate::ca::leaf::Name;

    #[test]
    fn made_once_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let made = Authority::load_or_make(dir.path()).unwrap();
        for file in [CERT, KEY] {
            let mode = dir
                .path()
                .join(file)
                .metadata()
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
        let again = Authority::load_or_make(dir.path()).unwrap();
        assert_eq!(again.fingerprint(), made.fingerprint());
        assert_eq!(made.fingerprint().len(), 64);
        again.issue(&[Name::parse("192.0.2.1").unwrap()]).unwrap();
        // Cut short after the key: the certificate is made for that key.
        std::fs::remove_file(dir.path().join(CERT)).unwrap();
        Authority::load_or_make(dir.path()).unwrap();
    }

    #[test]
    fn halves_that_do_not_match_are_named() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        Authority::load_or_make(a.path()).unwrap();
        Authority::load_or_make(b.path()).unwrap();
        std::fs::copy(b.path().join(KEY), a.path().join(KEY)).unwrap();
        let error = Authority::load(a.path()).err().unwrap().to_string();
        assert!(error.contains("do not belong together"), "{error}");
        std::fs::remove_file(a.path().join(KEY)).unwrap();
        assert!(Authority::load(a.path()).unwrap().is_none());
        let error = Authority::load_or_make(a.path()).err().unwrap().to_string();
        assert!(error.contains("without its key"), "{error}");
    }
}
