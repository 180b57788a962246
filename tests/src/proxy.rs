//! A TCP proxy in this process, whose connections can be cut or held up: the
//! network between a server and its database.

use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// What it does with connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Passes them on.
    Open,
    /// Ends those that there are, and new ones at once.
    Cut,
    /// Keeps them, and passes nothing on.
    Held,
}

/// A proxy before a socket; it is gone when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    task: AbortHandle,
}

impl Proxy {
    /// Passes connections to a free port of loopback on to the Unix socket at
    /// `target`.
    pub async fn start(target: &Path) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.context("listening for the proxy")?;
        let address = listener.local_addr()?;
        let mode = watch::Sender::new(Mode::Open);
        let task = tokio::spawn(accept(listener, target.to_owned(), mode.subscribe()));
        Ok(Self {
            address,
            mode,
            task: task.abort_handle(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections and refuses new ones.
    pub fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }

    /// Passes nothing on any more; connections stay as they are, and end when
    /// this does.
    pub fn hold(&self) {
        self.mode.send_replace(Mode::Held);
    }

    /// Passes new connections on again.
    pub fn mend(&self) {
        self.mode.send_replace(Mode::Open);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Its connections see that nobody tells them anything any more.
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, target: PathBuf, mode: watch::Receiver<Mode>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (target, mode) = (target.clone(), mode.clone());
        tokio::spawn(pass(stream, target, mode));
    }
}

async fn pass(mut stream: TcpStream, target: PathBuf, mut mode: watch::Receiver<Mode>) {
    if *mode.borrow_and_update() == Mode::Open {
        // A server that is being restarted has no socket.
        let Ok(mut server) = UnixStream::connect(&target).await else {
            return;
        };
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut stream, &mut server) => return,
            _ = mode.changed() => {}
        }
        // The server's end stays, too, for as long as nothing passes.
        while *mode.borrow_and_update() == Mode::Held {
            if mode.changed().await.is_err() {
                return;
            }
        }
        return;
    }
    while *mode.borrow_and_update() == Mode::Held {
        if mode.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpStream;
    use tokio::net::UnixListener;

    use super::Proxy;

    #[tokio::test]
    async fn passes_on_until_it_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    tokio::io::copy(&mut read, &mut write).await
                });
            }
        });
        let proxy = Proxy::start(&path).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        stream.write_all(b"ping").await.unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"ping");
        proxy.cut();
        assert_eq!(stream.read(&mut answer).await.unwrap_or(0), 0);
        let mut refused = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(refused.read(&mut answer).await.unwrap_or(0), 0);
        proxy.mend();
        let mut again = TcpStream::connect(proxy.address()).await.unwrap();
        again.write_all(b"pong").await.unwrap();
        again.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"pong");
    }
}
