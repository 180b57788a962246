//! HTTP/1.1: one request after the other.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::time::timeout;

use super::connection::Answering;
use super::connection::Bounds;

/// Serves a connection to its end.
pub(super) async fn serve<S>(stream: S, answering: Answering, bounds: Bounds)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let counted = Arc::clone(&bounds.counted);
    let service = service_fn(move |request| {
        let (answering, counted) = (answering.clone(), Arc::clone(&counted));
        async move {
            let mut answer = answering.answer(request).await?;
            if counted.is_one_too_many() {
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(CONNECTION, close);
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let mut served = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.limits.header)
            .serve_connection(TokioIo::new(stream), service)
    );
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = bounds.stopped() => {
            served.as_mut().graceful_shutdown();
            match timeout(bounds.limits.drain, served).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection broke");
    }
}
