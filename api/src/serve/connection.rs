//! One connection: its handshake, and which HTTP is spoken on it.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::Counted;
use super::Limits;
use super::http1;
use super::http2;
use crate::context::OverTls;
use crate::context::Peer;

/// What ends a connection.
#[derive(Clone)]
pub(super) struct Bounds {
    pub(super) limits: Limits,
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) counted: Arc<Counted>,
}

impl Bounds {
    /// The word to stop.
    pub(super) async fn stopped(&self) {
        let _ = self.stopping.clone().wait_for(|stop| *stop).await;
    }
}

/// What answers the requests of one connection.
#[derive(Clone)]
pub(super) struct Answering {
    router: Router,
    peer: Peer,
    over_tls: bool,
}

impl Answering {
    /// The answer to one request.
    pub(super) async fn answer(
        self,
        request: axum::http::Request<Incoming>,
    ) -> Result<Response, Infallible> {
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(self.peer);
        if self.over_tls {
            request.extensions_mut().insert(OverTls);
        }
        self.router.oneshot(request).await
    }
}

/// Serves a connection to its end.
pub(super) async fn serve(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    bounds: Bounds,
) {
    let _ = stream.set_nodelay(true);
    let Ok(peer) = stream.peer_addr() else {
        // It is gone already.
        return;
    };
    let answering = Answering {
        router,
        peer: Peer(peer.ip()),
        over_tls: acceptor.is_some(),
    };
    let Some(acceptor) = acceptor else {
        return http1::serve(stream, answering, bounds).await;
    };
    match timeout(bounds.limits.handshake, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => http2::serve(stream, answering, bounds).await,
            _ => http1::serve(stream, answering, bounds).await,
        },
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake timed out"),
    }
}
