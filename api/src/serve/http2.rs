//! HTTP/2: many requests at once. What HTTP/1.1 has from its order is kept
//! count of here: how many requests run, and since when none does.

use std::pin::pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioExecutor;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::connection::Answering;
use super::connection::Bounds;

/// Requests at once on one connection.
const STREAMS: u32 = 64;
/// Largest head of a request, in bytes.
const HEAD: u32 = 16 << 10;
/// Bytes of one request's body, and of all of a connection, that a client may
/// send before they are read.
const WINDOWS: (u32, u32) = (256 << 10, 1 << 20);
/// Bytes of one answer that wait to be sent.
const WAITING: usize = 64 << 10;

/// Serves a connection to its end.
pub(super) async fn serve<S>(stream: S, answering: Answering, bounds: Bounds)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let running = Arc::new(Running::new());
    let crowded = Arc::new(Notify::new());
    let (counting, counted) = (Arc::clone(&running), Arc::clone(&bounds.counted));
    let full = Arc::clone(&crowded);
    let service = service_fn(move |request| {
        let one = counting.begin();
        let answering = answering.clone();
        if counted.is_one_too_many() {
            full.notify_one();
        }
        async move {
            let answer = answering.answer(request).await;
            drop(one);
            answer
        }
    });
    let limits = &bounds.limits;
    let mut served = pin!(
        http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            // A peer that is gone without a word is noticed.
            .keep_alive_interval(limits.header)
            .keep_alive_timeout(limits.handshake)
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(HEAD)
            .initial_stream_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .max_send_buf_size(WAITING)
            .serve_connection(TokioIo::new(stream), service)
    );
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = async {
            tokio::select! {
                () = bounds.stopped() => {}
                () = running.idle(limits.header) => {}
                () = crowded.notified() => {}
            }
        } => {
            // No new requests; those that run end.
            served.as_mut().graceful_shutdown();
            match bounds.finish(served).await {
                Some(ended) => ended,
                None => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection broke");
    }
}

impl Bounds {
    /// Lets a connection end that takes no more requests: after the word to
    /// stop only for so long.
    async fn finish<F: Future>(&self, served: F) -> Option<F::Output> {
        let mut served = pin!(served);
        tokio::select! {
            ended = served.as_mut() => Some(ended),
            () = self.stopped() => timeout(self.limits.drain, served).await.ok(),
        }
    }
}

/// How many requests run, and when the last one ended.
struct Running(Mutex<(usize, Instant)>);

/// A request that runs, until it is dropped.
struct One(Arc<Running>);

impl Running {
    fn new() -> Self {
        Self(Mutex::new((0, Instant::now())))
    }

    fn begin(self: &Arc<Self>) -> One {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
        One(Arc::clone(self))
    }

    /// Comes back when no request has run for `span`.
    async fn idle(&self, span: Duration) {
        loop {
            let (running, since) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let left = match running {
                0 => span.saturating_sub(since.elapsed()),
                _ => span,
            };
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

impl Drop for One {
    fn drop(&mut self) {
        let mut state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = state.0.saturating_sub(1);
        state.1 = Instant::now();
    }
}
