//! Listening: plain HTTP or TLS, bounded in connections and time.

mod connection;
mod http1;
mod http2;

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use connection::Bounds;

/// Bounds of a listener.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at once; more wait to be accepted.
    pub connections: usize,
    /// Connections that may idle between two requests: while there are more,
    /// each ends with its answer. An idle one costs some 40 KB, a new
    /// handshake a quarter of a millisecond.
    pub kept: usize,
    /// Time for a TLS handshake.
    pub handshake: Duration,
    /// Time for the head of a request, also the longest idle time between two.
    pub header: Duration,
    /// Time for running requests to end after a shutdown has begun.
    pub drain: Duration,
}

impl Limits {
    /// The default in a process that may have `files` open: a part of them is
    /// left to what it opens itself, agents, BMCs and the database.
    pub fn for_files(files: u64) -> Self {
        let most = Self::default().connections;
        let share = usize::try_from(files / 2).unwrap_or(usize::MAX);
        Self {
            connections: share.clamp(1, most),
            kept: Self::default().kept.min(share / 2),
            ..Self::default()
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            kept: 1024,
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(60),
            drain: Duration::from_secs(10),
        }
    }
}

/// Serves `router` until `shutdown` is ready, then lets running requests end.
/// HTTP/1.1, and HTTP/2 with clients that choose it in the TLS handshake (ALPN),
/// where the configuration offers it.
///
/// # Errors
/// The listener failed for good.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    router: Router,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    serve_with(listener, tls, router, shutdown, Limits::default()).await
}

/// [`serve`] with bounds of one's own.
///
/// # Errors
/// As [`serve`].
pub async fn serve_with(
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    router: Router,
    shutdown: impl Future<Output = ()>,
    limits: Limits,
) -> io::Result<()> {
    let acceptor = tls.map(TlsAcceptor::from);
    let places = Arc::new(Semaphore::new(limits.connections));
    let open = Arc::new(AtomicUsize::new(0));
    let (stop, stopping) = watch::channel(false);
    let mut shutdown = pin!(shutdown);
    loop {
        let place = tokio::select! {
            biased;
            () = &mut shutdown => break,
            place = places.clone().acquire_owned() => place.map_err(io::Error::other)?,
        };
        let (stream, peer) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, or the peer is gone already.
                    tracing::warn!(%error, "connection not accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let (acceptor, router) = (acceptor.clone(), router.clone());
        let bounds = Bounds {
            limits: limits.clone(),
            stopping: stopping.clone(),
            counted: Arc::new(Counted::new(&open, limits.kept)),
        };
        tokio::spawn(async move {
            connection::serve(stream, acceptor, router, bounds).await;
            tracing::trace!(%peer, "connection ended");
            drop(place);
        });
    }
    drop(listener);
    let _ = stop.send(true);
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    if timeout(limits.drain, places.acquire_many(all))
        .await
        .is_err()
    {
        tracing::warn!("requests were still running at the end");
    }
    Ok(())
}

/// One of the connections that are open, counted for as long as it is.
struct Counted {
    open: Arc<AtomicUsize>,
    kept: usize,
}

impl Counted {
    fn new(open: &Arc<AtomicUsize>, kept: usize) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self {
            open: Arc::clone(open),
            kept,
        }
    }

    /// Whether there are more than may idle.
    fn is_one_too_many(&self) -> bool {
        self.open.load(Ordering::Relaxed) > self.kept
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}
