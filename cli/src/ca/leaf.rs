//! The server's certificate: the names that it is for, its two files, and
//! when it must be issued anew.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use anyhow::Context;
use anyhow::Result;
use jiff::SignedDuration;
use jiff::Timestamp;
use rcgen::SanType;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::ServerName;
use rustls_pki_types::pem::PemObject;

use super::authority;
use super::authority::Authority;
use super::check;
use crate::private;

/// File name of the chain: the certificate, then the CA's.
pub(crate) const CERT: &str = "server.pem";
/// File name of the key.
pub(crate) const KEY: &str = "server.key";

/// A certificate that ends within so many days is issued anew.
const MARGIN_DAYS: i64 = 60;
/// The largest PEM file that is read.
const PEM_LIMIT: u64 = 64 * 1024;

/// One name that a server is reached by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// An address.
    Ip(IpAddr),
    /// A host name.
    Dns(String),
}

impl Name {
    /// Reads an address or a host name.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self::Ip(address));
        }
        let name = text.trim_end_matches('.').to_lowercase();
        match ServerName::try_from(name.as_str()) {
            Ok(ServerName::DnsName(_)) => Ok(Self::Dns(name)),
            _ => anyhow::bail!("{text:?} is neither an IP address nor a host name"),
        }
    }

    pub(super) fn to_san(&self) -> Result<SanType> {
        Ok(match self {
            Self::Ip(address) => SanType::IpAddress(*address),
            Self::Dns(name) => SanType::DnsName(name.as_str().try_into()?),
        })
    }

    pub(super) fn to_server_name(&self) -> Result<ServerName<'static>> {
        Ok(match self {
            Self::Ip(address) => ServerName::IpAddress((*address).into()),
            Self::Dns(name) => ServerName::try_from(name.clone())?,
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Dns(name) => name.fmt(f),
        }
    }
}

/// A certificate with its chain and key.
pub(crate) struct Leaf {
    pub(crate) chain_pem: String,
    pub(crate) key_pem: String,
}

impl Leaf {
    /// The certificate and what follows it.
    pub(crate) fn chain(&self) -> Result<Vec<CertificateDer<'static>>> {
        CertificateDer::pem_slice_iter(self.chain_pem.as_bytes())
            .collect::<Result<_, _>>()
            .context("reading the server's certificate")
    }

    /// The key.
    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).context("reading the server's key")
    }

    /// Writes the two files.
    pub(crate) fn save(&self, folder: &Path) -> Result<()> {
        private::write(&folder.join(KEY), &self.key_pem)?;
        private::write(&folder.join(CERT), &self.chain_pem)
    }

    fn load(folder: &Path) -> Result<Option<Self>> {
        let (cert, key) = (folder.join(CERT), folder.join(KEY));
        if !cert.exists() || !key.exists() {
            return Ok(None);
        }
        Self::read(&cert, &key).map(Some)
    }

    /// Reads the two files.
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<Self> {
        Ok(Self {
            chain_pem: private::read(certificate, PEM_LIMIT)?,
            key_pem: private::read(key, PEM_LIMIT)?,
        })
    }

    /// Whether it holds for all names, and long enough, and fits its key.
    fn suits(&self, ca: &CertificateDer<'static>, names: &[Name]) -> Result<()> {
        let later = Timestamp::now()
            .checked_add(SignedDuration::from_hours(24 * MARGIN_DAYS))
            .context("the clock is far off")?;
        let chain = self.chain()?;
        check::verify(&chain, ca, names, later)?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        rustls::sign::CertifiedKey::from_der(chain, self.key()?, &provider)
            .context("the server's key does not belong to its certificate")?;
        Ok(())
    }
}

/// What a server presents: the leaf, and the CA that it leads to.
pub(crate) struct Identity {
    /// The server's certificate.
    pub(crate) leaf: Leaf,
    /// The CA's certificate, PEM.
    pub(crate) ca_pem: String,
    /// The same as DER.
    pub(crate) ca_der: CertificateDer<'static>,
    /// Hex SHA-256 of its DER.
    pub(crate) ca_fingerprint: String,
}

impl Identity {
    /// Takes the stored certificate if it suits, else issues one and stores
    /// it in `state`: one for `names`. A folder `ca` without the CA's key must
    /// hold a certificate that suits (`wrought ca issue`): one for `told` at
    /// least.
    pub(crate) fn load_or_issue(
        ca: &Path,
        state: &Path,
        names: &[Name],
        told: &[Name],
    ) -> Result<Self> {
        let authority = match Authority::load(ca)? {
            Some(authority) => Some(authority),
            // With a certificate but no key: issued elsewhere.
            None if ca.join(authority::CERT).exists() => None,
            None => Some(Authority::load_or_make(ca)?),
        };
        let (ca_pem, ca_der) = authority::read_cert(&ca.join(authority::CERT))?;
        let found = |leaf| Self {
            leaf,
            ca_pem: ca_pem.clone(),
            ca_fingerprint: authority::fingerprint(&ca_der),
            ca_der: ca_der.clone(),
        };
        let Some(authority) = authority else {
            let leaf = Leaf::load(ca)?.with_context(|| {
                format!(
                    "{} holds neither the CA's key nor a certificate for this server: run `wrought ca issue` where the CA is",
                    ca.display()
                )
            })?;
            leaf.suits(&ca_der, told).with_context(|| {
                format!(
                    "{} does not suit this server: run `wrought ca issue` where the CA is",
                    ca.join(CERT).display()
                )
            })?;
            return Ok(found(leaf));
        };
        if let Some(leaf) = Leaf::load(state)? {
            match leaf.suits(&ca_der, names) {
                Ok(()) => return Ok(found(leaf)),
                Err(reason) => {
                    tracing::info!("issuing the server's certificate anew: {reason:#}");
                }
            }
        }
        let leaf = authority.issue(names)?;
        leaf.save(state)?;
        Ok(found(leaf))
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use jiff::Timestamp;

    use super::CERT;
    use super::Identity;
    use super::KEY;
    use super::Name;
    use crate::ca::authority;
    use crate::ca::authority::Authority;
    use crate::ca::check;

    fn names(list: &[&str]) -> Vec<Name> {
        list.iter().map(|name| Name::parse(name).unwrap()).collect()
    }

    #[test]
    fn names_are_addresses_or_hosts() {
        assert_eq!(
            Name::parse("[2001:db8::1]").unwrap().to_string(),
            "2001:db8::1"
        );
        assert_eq!(
            Name::parse("Host.Example.").unwrap().to_string(),
            "host.example"
        );
        for bad in ["", "a b", "http://x", "-"] {
            assert!(Name::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn kept_while_it_suits_and_issued_anew_when_not() {
        let dir = tempfile::tempdir().unwrap();
        let (ca, state) = (dir.path().join("ca"), dir.path().join("state"));
        std::fs::create_dir(&ca).unwrap();
        std::fs::create_dir(&state).unwrap();
        let one = names(&["127.0.0.1", "localhost"]);
        let first = Identity::load_or_issue(&ca, &state, &one, &[]).unwrap();
        let same = Identity::load_or_issue(&ca, &state, &one, &[]).unwrap();
        assert_eq!(first.leaf.chain_pem, same.leaf.chain_pem);
        assert_eq!(same.leaf.chain().unwrap().len(), 2);
        let more = names(&["127.0.0.1", "localhost", "192.0.2.9", "2001:db8::9"]);
        let second = Identity::load_or_issue(&ca, &state, &more, &[]).unwrap();
        assert_ne!(first.leaf.chain_pem, second.leaf.chain_pem);
        assert_eq!(first.ca_fingerprint, second.ca_fingerprint);

        // It ends, and is not for other names.
        let (_, der) = authority::read_cert(&ca.join(authority::CERT)).unwrap();
        let chain = second.leaf.chain().unwrap();
        let later = |days: i64| {
            Timestamp::now()
                .checked_add(SignedDuration::from_hours(24 * days))
                .unwrap()
        };
        check::verify(&chain, &der, &more, later(390)).unwrap();
        check::verify(&chain, &der, &more, later(400)).unwrap_err();
        check::verify(&chain, &der, &names(&["192.0.2.8"]), later(0)).unwrap_err();
        // A key that does not belong to it is noticed.
        std::fs::copy(ca.join(authority::KEY), state.join(KEY)).unwrap();
        let third = Identity::load_or_issue(&ca, &state, &more, &[]).unwrap();
        assert_ne!(third.leaf.chain_pem, second.leaf.chain_pem);
    }

    #[test]
    fn a_server_without_the_cas_key_uses_what_was_issued() {
        let dir = tempfile::tempdir().unwrap();
        let (ca, other) = (dir.path().join("ca"), dir.path().join("other"));
        std::fs::create_dir(&ca).unwrap();
        std::fs::create_dir(&other).unwrap();
        let authority = Authority::load_or_make(&ca).unwrap();
        std::fs::copy(ca.join(authority::CERT), other.join(authority::CERT)).unwrap();
        let wanted = names(&["192.0.2.2"]);
        let own = |told: &[Name]| {
            let all = names(&["localhost", "192.0.2.2", "192.0.2.3"]);
            Identity::load_or_issue(&other, dir.path(), &all, told)
        };
        let error = own(&wanted).err().unwrap();
        assert!(error.to_string().contains("wrought ca issue"), "{error}");
        authority.issue(&wanted).unwrap().save(&other).unwrap();
        let identity = own(&wanted).unwrap();
        assert_eq!(identity.ca_fingerprint, authority.fingerprint());
        let error = own(&names(&["192.0.2.3"]));
        assert!(error.err().unwrap().to_string().contains("does not suit"));
        assert!(!dir.path().join(CERT).exists());
    }
}
