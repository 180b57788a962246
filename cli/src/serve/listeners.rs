//! Listeners that run side by side and end together.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use anyhow::Result;
use axum::Router;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use wrought_api::Limits;

/// Opens a socket.
pub(crate) async fn bind(listen: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(listen)
        .await
        .with_context(|| format!("listening on {listen}"))
}

/// Running listeners.
#[derive(Debug)]
pub(crate) struct Listeners {
    tasks: JoinSet<std::io::Result<()>>,
    stop: watch::Sender<bool>,
    limits: Limits,
}

impl Listeners {
    /// None yet.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            tasks: JoinSet::new(),
            stop: watch::Sender::new(false),
            limits,
        }
    }

    /// Starts one.
    pub(crate) fn start(
        &mut self,
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        router: Router,
    ) {
        let mut stop = self.stop.subscribe();
        let limits = self.limits.clone();
        self.tasks.spawn(async move {
            let until = async move {
                // An error says that nobody is left to tell: stop as well.
                stop.wait_for(|stop| *stop).await.ok();
            };
            wrought_api::serve_with(listener, tls, router, until, limits).await
        });
    }

    /// The reason why one ended before it was to; never, while none does.
    pub(crate) async fn failure(&mut self) -> anyhow::Error {
        match self.tasks.join_next().await {
            None => std::future::pending().await,
            Some(Ok(Ok(()))) => anyhow::anyhow!("a listener ended by itself"),
            Some(Ok(Err(error))) => anyhow::Error::new(error).context("a listener failed"),
            Some(Err(error)) => anyhow::Error::new(error).context("a listener broke down"),
        }
    }

    /// Lets running requests end and takes no more.
    pub(crate) async fn end(mut self) {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}
