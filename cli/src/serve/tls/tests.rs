//! Certificates that change while they are in use.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::ServerName;
use rustls_pki_types::pem::PemObject;
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::TlsConnector;

use super::Given;
use super::Kept;
use super::Origin;
use super::Source;
use crate::ca::authority::Authority;
use crate::ca::leaf::Leaf;
use crate::ca::leaf::Name;
use crate::serve::names::Names;

const LOOK: Duration = Duration::from_millis(20);

/// The certificate that a client of the CA is shown, and the protocol that
/// it was granted of those that it offered.
async fn shown(
    server: &Arc<ServerConfig>,
    ca: &Authority,
    offered: &[&str],
) -> (CertificateDer<'static>, Option<Vec<u8>>) {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(ca.pem().as_bytes()).unwrap();
    roots.add(root).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = offered
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    let (near, far) = tokio::io::duplex(1 << 16);
    let accepting = TlsAcceptor::from(Arc::clone(server)).accept(far);
    let connector = TlsConnector::from(Arc::new(client));
    let name = ServerName::try_from("a.test").unwrap();
    let (accepted, connected) = tokio::join!(accepting, connector.connect(name, near));
    accepted.unwrap().shutdown().await.unwrap();
    let connected = connected.unwrap();
    let session = connected.get_ref().1;
    let leaf = session.peer_certificates().unwrap()[0].clone();
    (leaf, session.alpn_protocol().map(<[u8]>::to_vec))
}

fn save(leaf: &Leaf, given: &Given) {
    std::fs::write(&given.certificate, &leaf.chain_pem).unwrap();
    std::fs::write(&given.key, &leaf.key_pem).unwrap();
}

fn given(folder: &Path) -> Given {
    Given {
        certificate: folder.join("given.pem"),
        key: folder.join("given.key"),
    }
}

#[tokio::test]
async fn a_given_certificate_is_taken_over_when_it_is_good() {
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::load_or_make(dir.path()).unwrap();
    let names = [Name::parse("a.test").unwrap()];
    let leaves: Vec<Leaf> = (0..3).map(|_| ca.issue(&names).unwrap()).collect();
    let given = given(dir.path());
    save(&leaves[0], &given);
    let kept = Kept::looking(Origin::Given(given.clone()), LOOK).unwrap();
    let server = kept.server().unwrap();
    let first = |leaf: &Leaf| leaf.chain().unwrap()[0].clone();
    assert_eq!(shown(&server, &ca, &[]).await.0, first(&leaves[0]));
    // Half of a change, and rubbish: the old one stays.
    std::fs::write(&given.certificate, &leaves[1].chain_pem).unwrap();
    tokio::time::sleep(10 * LOOK).await;
    assert_eq!(shown(&server, &ca, &[]).await.0, first(&leaves[0]));
    std::fs::write(&given.certificate, "rubbish").unwrap();
    tokio::time::sleep(10 * LOOK).await;
    assert_eq!(shown(&server, &ca, &[]).await.0, first(&leaves[0]));
    std::fs::remove_file(&given.certificate).unwrap();
    tokio::time::sleep(10 * LOOK).await;
    assert_eq!(shown(&server, &ca, &[]).await.0, first(&leaves[0]));
    // The whole of it.
    save(&leaves[2], &given);
    let mut tries = 0;
    while shown(&server, &ca, &[]).await.0 != first(&leaves[2]) {
        tries += 1;
        assert!(tries < 1000, "the new certificate was not taken over");
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test]
async fn our_own_is_taken_over_too_and_clients_choose_the_protocol() {
    let dir = tempfile::tempdir().unwrap();
    let names = vec![Name::parse("a.test").unwrap()];
    let own = Source {
        ca_dir: dir.path().join("ca"),
        state_dir: dir.path().to_owned(),
        names: Names {
            all: names.clone(),
            told: names.clone(),
        },
    };
    crate::private::folder(&own.ca_dir).unwrap();
    let ca = Authority::load_or_make(&own.ca_dir).unwrap();
    let kept = Kept::looking(Origin::Own(own.clone()), LOOK).unwrap();
    let server = kept.server().unwrap();
    for (offered, granted) in [
        (&["h2", "http/1.1"][..], Some("h2")),
        (&["http/1.1"], Some("http/1.1")),
        (&[], None),
    ] {
        let (_, found) = shown(&server, &ca, offered).await;
        assert_eq!(found.as_deref(), granted.map(str::as_bytes), "{offered:?}");
    }
    let next = ca.issue(&names).unwrap();
    next.save(&own.state_dir).unwrap();
    let mut tries = 0;
    while shown(&server, &ca, &[]).await.0 != next.chain().unwrap()[0] {
        tries += 1;
        assert!(tries < 1000, "the new certificate was not taken over");
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::load_or_make(dir.path()).unwrap();
    let names = [Name::parse("a.test").unwrap()];
    let (one, other) = (ca.issue(&names).unwrap(), ca.issue(&names).unwrap());
    let given = given(dir.path());
    let refused = || {
        let started = Kept::looking(Origin::Given(given.clone()), LOOK);
        format!("{:#}", started.err().unwrap())
    };
    assert!(refused().contains("given.pem"));
    save(&one, &given);
    std::fs::write(&given.key, &other.key_pem).unwrap();
    assert!(refused().contains("do not belong together"));
    std::fs::write(&given.certificate, "").unwrap();
    assert!(refused().contains("empty"));
}
