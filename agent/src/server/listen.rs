//! Sockets and TLS of the command server.

use std::io;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tracing::debug;
use tracing::warn;

/// Connections that are served at the same time.
const CONNECTIONS: usize = 32;
/// How long a peer may take for the handshake, and for the header of a
/// request; this also ends idle connections.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_TIMEOUT: Duration = Duration::from_secs(60);

/// Binds the command server. Where the kernel has no IPv6, "all addresses"
/// means those of IPv4.
pub async fn bind(host: IpAddr, port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind(SocketAddr::new(host, port)).await {
        Err(error)
            if host.is_ipv6()
                && host.is_unspecified()
                && error.kind() != io::ErrorKind::AddrInUse =>
        {
            TcpListener::bind(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)).await
        }
        other => other,
    }
}

/// Serves for ever. One peer's trouble never touches another's connection.
pub async fn serve(listener: TcpListener, tls: Arc<ServerConfig>, router: Router) {
    let acceptor = TlsAcceptor::from(tls);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!("command server: cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            }
        };
        let (acceptor, router) = (acceptor.clone(), router.clone());
        tokio::spawn(async move {
            if let Err(error) = connection(stream, acceptor, router).await {
                debug!("command server: connection from {peer} ended: {error}");
            }
            drop(place);
        });
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, router: Router) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream))
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no TLS handshake in time"))??;
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await
        .map_err(io::Error::other)
}
