//! TLS as agents serve it: a self-signed certificate, handshakes aside of the
//! listener's queue.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Finished handshakes that may wait to be served.
const QUEUE: usize = 64;

type Accepted = (TlsStream<TcpStream>, SocketAddr);

/// Connections whose handshake has succeeded.
#[derive(Debug)]
pub struct Listener {
    ready: mpsc::Receiver<Accepted>,
    address: SocketAddr,
}

impl Listener {
    /// Wraps a listener; gives the certificate, PEM, too.
    pub fn new(listener: TcpListener) -> Result<(Self, String)> {
        let address = listener.local_addr()?;
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])
            .context("making the agents' certificate")?;
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())
            .map_err(anyhow::Error::msg)
            .context("the agents' key")?;
        let mut config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .context("setting up TLS of the agents")?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let (done, ready) = mpsc::channel(QUEUE);
        tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), done));
        Ok((Self { ready, address }, made.cert.pem()))
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, done: mpsc::Sender<Accepted>) {
    loop {
        // Without a server the port is given back at once.
        let accepted = tokio::select! {
            () = done.closed() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (acceptor, done) = (acceptor.clone(), done.clone());
        tokio::spawn(async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                // The server that would take it may be gone.
                done.send((stream, peer)).await.ok();
            }
        });
    }
}

impl axum::serve::Listener for Listener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(accepted) => accepted,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        Ok(self.address)
    }
}
