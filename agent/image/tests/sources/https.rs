//! Image servers with certificates of their own.

use std::io::BufReader;
use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rcgen::BasicConstraints;
use rcgen::CertificateParams;
use rcgen::CertifiedIssuer;
use rcgen::IsCa;
use rcgen::KeyPair;
use rustls::ServerConfig;
use rustls::ServerConnection;
use rustls::StreamOwned;
use rustls::pki_types::PrivateKeyDer;
use wrought_image::BasicAuth;
use wrought_image::ErrorKind;
use wrought_image::Secret;

use crate::fetch;
use crate::scripted;
use crate::scripted::Asked;
use crate::scripted::Reply;
use crate::scripted::Scripted;
use crate::support::MIB;
use crate::support::disk;

/// A server with a CA of its own, for 127.0.0.1 and `image-server`.
pub(crate) struct Secure {
    /// `ADDR:PORT`.
    pub(crate) host: String,
    /// The CA, PEM.
    pub(crate) ca: Vec<u8>,
}

impl Secure {
    pub(crate) fn start(answer: impl Fn(&Asked) -> Reply + Send + 'static) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = ["127.0.0.1".to_owned(), "image-server".to_owned()];
        let params = CertificateParams::new(names).unwrap();
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
        let host = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for tcp in listener.incoming().flatten() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = BufReader::new(StreamOwned::new(connection, tcp));
                while let Some((target, headers)) = scripted::head(&mut stream) {
                    let reply = answer(&Asked::new(0, target, headers));
                    let sent = reply.send(stream.get_mut());
                    if sent.and_then(|()| stream.get_mut().flush()).is_err() {
                        break;
                    }
                }
            }
        });
        Self {
            host,
            ca: issuer.pem().into_bytes(),
        }
    }

    fn url(&self) -> String {
        format!("https://{}/disk.img", self.host)
    }
}

#[test]
fn the_authority_and_the_password_are_asked_for() {
    let image = disk(3 * MIB, 1);
    let bytes = image.clone();
    let server = Secure::start(move |asked| match asked.header("authorization") {
        // "me:secret" in base64.
        Some("Basic bWU6c2VjcmV0") => Reply::ranged(asked, &bytes),
        _ => Reply::new(401),
    });
    let other = Secure::start(|_| Reply::new(404));
    let url = server.url();

    let error = fetch(&[&url], &image, |request| {
        request.retry.delay = Duration::from_secs(3600);
    });
    let error = error.unwrap_err();
    assert_eq!(
        (error.kind(), error.is_retryable()),
        (ErrorKind::Source, false)
    );
    assert!(
        error.to_string().contains("give its CA with --ca"),
        "{error}"
    );
    assert!(error.chain().contains("UnknownIssuer"), "{}", error.chain());

    // One of several CAs, in files of their own or together.
    let both = [other.ca.clone(), server.ca.clone()];
    for ca in [both.to_vec(), vec![both.concat()]] {
        let error = fetch(&[&url], &image, |r| r.http.extra_ca_pem = ca.clone()).unwrap_err();
        assert!(
            error.to_string().contains("the server answered 401"),
            "{error}"
        );
        fetch(&[&url], &image, |request| {
            request.http.extra_ca_pem = ca;
            request.http.basic_auth = Some(BasicAuth {
                user: "me".to_owned(),
                password: Secret::new("secret"),
            });
        })
        .unwrap();
    }

    let error = fetch(&[&url], &image, |request| request.http.insecure = true).unwrap_err();
    assert!(
        error.to_string().contains("the server answered 401"),
        "{error}"
    );

    for bad in [
        "no certificate",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        let error = fetch(&[&url], &image, |request| {
            request.http.extra_ca_pem = vec![bad.as_bytes().to_vec()];
        });
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Request);
    }
}

#[test]
fn encryption_is_not_given_up_by_a_redirect() {
    let image = disk(2 * MIB, 2);
    let bytes = image.clone();
    let plain = Scripted::start(move |asked| Reply::ranged(asked, &bytes));
    let elsewhere = plain.url("/x");
    let server = Secure::start(move |_| Reply::redirect(&elsewhere));
    let error = fetch(&[&server.url()], &image, |request| {
        request.http.extra_ca_pem = vec![server.ca.clone()];
    })
    .unwrap_err();
    assert!(
        error.chain().contains("from https to http"),
        "{}",
        error.chain()
    );
    assert!(!error.is_retryable());
    assert_eq!(plain.asked().len(), 0);
}
