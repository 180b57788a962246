//! Which certificates the client takes.

use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use wrought_bmc::redfish::AuthType;
use wrought_bmc::redfish::Client;
use wrought_bmc::redfish::Endpoint;
use wrought_bmc::redfish::Error;
use wrought_bmc::redfish::Verify;
use wrought_wire::secret::Secret;

use crate::double::tuning;

/// A service with a certificate of its own making that answers 404; gives its
/// address and the certificate.
async fn start() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            let answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (address, made.cert.pem())
}

#[tokio::test]
async fn certificates_are_checked_as_told() {
    let (address, pem) = start().await;
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    for (verify, taken) in [
        (Verify::No, true),
        (Verify::CaPem(pem), true),
        (Verify::CaPem(other.cert.pem()), false),
        (Verify::Yes, false),
    ] {
        let endpoint = Endpoint {
            address: address.clone(),
            system_id: None,
            username: None,
            password: Secret::default(),
            verify: verify.clone(),
            auth: AuthType::Auto,
        };
        // Without any CA on this machine, that is what the error says.
        let outcome = match Client::with_tuning(endpoint, tuning()) {
            Ok(client) => client.system().await.map(drop),
            Err(error) => Err(error),
        };
        match outcome {
            Err(Error::NotFound { .. }) => assert!(taken, "{verify:?}"),
            Err(Error::Certificate { .. } | Error::Setup { .. }) => assert!(!taken, "{verify:?}"),
            other => panic!("{verify:?}: {other:?}"),
        }
    }
}
