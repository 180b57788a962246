//! The listener: TLS, time-outs, bounds, an orderly end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::body::to_bytes;
use axum::http::Request;
use axum::http::Version;
use axum::routing::get;
use hyper::client::conn::http2;
use hyper_util::rt::TokioExecutor;
use hyper_util::rt::TokioIo;
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

/// TLS of a server that speaks these protocols, and of a client that trusts it.
fn tls(protocols: &[&str]) -> (Arc<ServerConfig>, TlsConnector) {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let made = rcgen::generate_simple_self_signed(vec!["api.test".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let protocols: Vec<_> = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    server.alpn_protocols.clone_from(&protocols);
    client.alpn_protocols = protocols;
    (Arc::new(server), TlsConnector::from(Arc::new(client)))
}

#[tokio::test]
async fn links_say_https_over_tls() {
    let (server, client) = tls(&[]);
    let running = start(Api::open().await.router, Some(server)).await;
    // Someone who never speaks TLS does not hold others up for long.
    let silent = TcpStream::connect(running.address).await.unwrap();
    let stream = TcpStream::connect(running.address).await.unwrap();
    let name = ServerName::try_from("api.test").unwrap();
    let stream = client.connect(name, stream).await.unwrap();
    let answer = exchange(stream, "/v1").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("https://api.test/v1/nodes/"));
    drop(silent);
    running.stop.send(()).unwrap();
    running.ended.await.unwrap().unwrap();
}

/// A client that speaks HTTP/2, and its connection.
async fn speak_http2(
    address: SocketAddr,
    tls: &TlsConnector,
) -> (http2::SendRequest<Body>, JoinHandle<hyper::Result<()>>) {
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("api.test").unwrap();
    let stream = tls.connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let speaking = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = speaking.await.unwrap();
    (sender, tokio::spawn(connection))
}

async fn ask(
    mut sender: http2::SendRequest<Body>,
    method: &str,
    path: &str,
    body: String,
) -> (u16, String) {
    let request = Request::builder()
        .method(method)
        .uri(format!("https://api.test{path}"))
        .header("x-openstack-ironic-api-version", "latest");
    let request = request.body(Body::from(body)).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.version(), Version::HTTP_2);
    let status = answer.status().as_u16();
    let body = to_bytes(Body::new(answer.into_body()), 1 << 20)
        .await
        .unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn http2_for_clients_that_choose_it() {
    let (server, client) = tls(&["h2", "http/1.1"]);
    let running = start(Api::open().await.router, Some(server)).await;
    let (sender, connection) = speak_http2(running.address, &client).await;
    let mut asked = Vec::new();
    for number in 0..20 {
        let body = format!(r#"{{"driver": "fake-hardware", "name": "n{number}"}}"#);
        let (sender, other) = (sender.clone(), sender.clone());
        asked.push(tokio::spawn(async move {
            let (status, made) = ask(sender, "POST", "/v1/nodes", body).await;
            assert_eq!(status, 201, "{made}");
            assert!(made.contains("https://api.test/v1/nodes/"), "{made}");
            let path = format!("/v1/nodes/n{number}");
            ask(other, "GET", &path, String::new()).await.0
        }));
    }
    for asked in asked {
        assert_eq!(asked.await.unwrap(), 200);
    }
    // More than is read of it: refused, and the connection goes on.
    let much = "x".repeat(2 << 20);
    let (status, _) = ask(sender.clone(), "POST", "/v1/nodes", much).await;
    assert_eq!(status, 413);
    assert_eq!(
        ask(sender.clone(), "GET", "/v1", String::new()).await.0,
        200
    );
    // Who says nothing for long makes room, in order.
    let ended = tokio::time::timeout(Duration::from_secs(20), connection).await;
    ended.expect("an idle connection stayed").unwrap().unwrap();
    drop(sender);
    running.stop.send(()).unwrap();
    running.ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn http2_ends_in_order_and_where_places_are_few() {
    let slow = || async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        "done"
    };
    let router = Router::new().route("/slow", get(slow));
    let (server, client) = tls(&["h2"]);
    let running = start(router, Some(server)).await;
    let (first, _kept) = speak_http2(running.address, &client).await;
    assert_eq!(
        ask(first.clone(), "GET", "/slow", String::new()).await.1,
        "done"
    );
    let (second, ended) = speak_http2(running.address, &client).await;
    assert_eq!(
        ask(second.clone(), "GET", "/slow", String::new()).await.1,
        "done"
    );
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
    ended
        .expect("one connection too many stayed")
        .unwrap()
        .unwrap();
    drop((first, second));

    let (third, _) = speak_http2(running.address, &client).await;
    let answer = tokio::spawn(ask(third, "GET", "/slow", String::new()));
    tokio::time::sleep(Duration::from_millis(50)).await;
    running.stop.send(()).unwrap();
    running.ended.await.unwrap().unwrap();
    assert_eq!(answer.await.unwrap().1, "done");
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
