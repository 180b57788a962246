//! The listener: TLS, time-outs, bounds, an orderly end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use axum::Router;
use axum::routing::get;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::ServerName;
use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use wrought_api::Limits;
use wrought_api::serve_with;

use crate::support::Api;

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<std::io::Result<()>>,
}

async fn start(router: Router, tls: Option<Arc<ServerConfig>>) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let limits = Limits {
        connections: 2,
        kept: 1,
        handshake: Duration::from_millis(200),
        header: Duration::from_millis(300),
        drain: Duration::from_secs(2),
    };
    let shutdown = async {
        stopped.await.ok();
    };
    let ended = tokio::spawn(serve_with(listener, tls, router, shutdown, limits));
    Running {
        address,
        stop,
        ended,
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok();
    answer
}

#[tokio::test]
async fn links_say_https_over_tls() {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let made = rcgen::generate_simple_self_signed(vec!["api.test".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let running = start(Api::open().await.router, Some(Arc::new(server))).await;
    // Someone who never speaks TLS does not hold others up for long.
    let silent = TcpStream::connect(running.address).await.unwrap();
    let stream = TcpStream::connect(running.address).await.unwrap();
    let name = ServerName::try_from("api.test").unwrap();
    let stream = TlsConnector::from(Arc::new(client))
        .connect(name, stream)
        .await
        .unwrap();
    let answer = exchange(stream, "/v1").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("https://api.test/v1/nodes/"));
    drop(silent);
    running.stop.send(()).unwrap();
    running.ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn silent_connections_make_room() {
    let running = start(Api::open().await.router, None).await;
    let mut silent = Vec::new();
    for _ in 0..2 {
        silent.push(TcpStream::connect(running.address).await.unwrap());
    }
    let started = Instant::now();
    let answer = exchange(TcpStream::connect(running.address).await.unwrap(), "/v1").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("http://api.test/v1/nodes/"));
    assert!(
        started.elapsed() >= Duration::from_millis(250),
        "the bound did not hold"
    );
}

#[tokio::test]
async fn connections_end_with_their_answer_where_places_are_few() {
    let running = start(Api::open().await.router, None).await;
    let mut kept = Vec::new();
    for closes in [false, true] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let request = b"GET /v1 HTTP/1.1\r\nHost: api.test\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut head = Vec::new();
        while !head.windows(4).any(|window| window == b"\r\n\r\n") {
            assert!(stream.read_buf(&mut head).await.unwrap() > 0);
        }
        let head = String::from_utf8_lossy(&head).to_lowercase();
        assert_eq!(head.contains("connection: close"), closes, "{head}");
        kept.push(stream);
    }
}

#[tokio::test]
async fn a_running_request_ends_in_order() {
    let slow = || async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        "done"
    };
    let running = start(Router::new().route("/slow", get(slow)), None).await;
    let stream = TcpStream::connect(running.address).await.unwrap();
    let answer = tokio::spawn(exchange(stream, "/slow"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    running.stop.send(()).unwrap();
    running.ended.await.unwrap().unwrap();
    assert!(answer.await.unwrap().ends_with("done"));
    assert!(TcpStream::connect(running.address).await.is_err());
}
