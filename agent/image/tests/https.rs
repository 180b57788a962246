//! Image servers with certificates of their own.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use rcgen::BasicConstraints;
use rcgen::CertificateParams;
use rcgen::CertifiedIssuer;
use rcgen::IsCa;
use rcgen::KeyPair;
use rustls::ServerConfig;
use rustls::ServerConnection;
use rustls::StreamOwned;
use rustls::pki_types::PrivateKeyDer;
use support::MIB;
use support::disk;
use support::request;
use wrought_image::BasicAuth;
use wrought_image::ErrorKind;
use wrought_image::Secret;
use wrought_image::write;

/// A server for `image` that wants a password; its URL and its CA in PEM.
fn serve(image: Vec<u8>) -> (String, Vec<u8>) {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let leaf = params.signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/disk.img", listener.local_addr().unwrap());
    thread::spawn(move || {
        for tcp in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = BufReader::new(StreamOwned::new(connection, tcp));
            let mut allowed = false;
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).unwrap_or(0) <= 2 {
                    break;
                }
                // "me:secret" in base64.
                allowed |= line.trim() == "authorization: Basic bWU6c2VjcmV0";
            }
            let stream = stream.get_mut();
            let head = if allowed {
                "200 OK"
            } else {
                "401 Unauthorized"
            };
            let body: &[u8] = if allowed { &image } else { &[] };
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n"
            )
            .and_then(|()| stream.write_all(body))
            .and_then(|()| stream.flush());
        }
    });
    (url, issuer.pem().into_bytes())
}

#[test]
fn the_authority_and_the_password_are_asked_for() {
    let image = disk(3 * MIB, 1);
    let (url, ca) = serve(image.clone());
    let dir = tempfile::tempdir().unwrap();
    let mut request = request(&url, &dir.path().join("disk"), &image);

    let error = write(&request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Source);
    assert!(error.chain().contains("UnknownIssuer"), "{}", error.chain());

    request.http.extra_ca_pem = vec![ca];
    let error = write(&request).unwrap_err();
    assert!(
        error.to_string().contains("the server answered 401"),
        "{}",
        error.chain()
    );

    let password = Secret::new("secret");
    request.http.basic_auth = Some(BasicAuth {
        user: "me".to_owned(),
        password,
    });
    write(&request).unwrap();
    assert!(std::fs::read(dir.path().join("disk")).unwrap() == image);

    request.http.extra_ca_pem = Vec::new();
    request.http.insecure = true;
    write(&request).unwrap();

    request.http.extra_ca_pem = vec![b"no certificate".to_vec()];
    request.http.insecure = false;
    assert_eq!(write(&request).unwrap_err().kind(), ErrorKind::Request);
}
