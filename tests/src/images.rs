//! An image server that can be told to misbehave.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::Method;
use axum::http::StatusCode;
use axum::http::Uri;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use futures_util::Stream;
use tokio::io::AsyncRead;
use tokio::io::ReadBuf;

use crate::netns;

/// What goes wrong with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The byte at this offset has its lowest bit flipped.
    Corrupt(u64),
    /// The connection breaks after so many bytes.
    CutShort(u64),
    /// This status instead of the file.
    Status(u16),
    /// The answer waits so many seconds.
    Delay(u64),
}

#[derive(Debug, Clone)]
enum Content {
    File(PathBuf),
    Text(String),
}

#[derive(Debug, Default)]
struct Shelf {
    contents: HashMap<String, Content>,
    faults: HashMap<String, Fault>,
    requests: Vec<String>,
}

/// The server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Images {
    shelf: Arc<Mutex<Shelf>>,
    address: SocketAddr,
}

impl Images {
    /// Starts serving on a free port of the namespace.
    pub async fn start() -> Result<Self> {
        let listener = tokio::net::TcpListener::bind((netns::HOST, 0)).await?;
        let address = listener.local_addr()?;
        let images = Self {
            shelf: Arc::default(),
            address,
        };
        let router = Router::new().fallback(serve).with_state(images.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(images)
    }

    /// Offers a file under a name; gives its URL.
    pub fn offer_file(&self, name: &str, file: &Path) -> String {
        self.offer(name, Content::File(file.to_owned()))
    }

    /// Offers a text under a name; gives its URL.
    pub fn offer_text(&self, name: &str, text: &str) -> String {
        self.offer(name, Content::Text(text.to_owned()))
    }

    /// Sets or clears what goes wrong with a name.
    pub fn set_fault(&self, name: &str, fault: Option<Fault>) {
        let mut shelf = self.lock();
        match fault {
            Some(fault) => shelf.faults.insert(format!("/{name}"), fault),
            None => shelf.faults.remove(&format!("/{name}")),
        };
    }

    /// Requests so far, as `METHOD path`.
    pub fn requests(&self) -> Vec<String> {
        self.lock().requests.clone()
    }

    /// A URL on this server.
    pub fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    fn offer(&self, name: &str, content: Content) -> String {
        self.lock().contents.insert(format!("/{name}"), content);
        self.url(name)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(State(images): State<Images>, method: Method, uri: Uri) -> Response {
    let (content, fault) = {
        let mut shelf = images.lock();
        shelf.requests.push(format!("{method} {}", uri.path()));
        (
            shelf.contents.get(uri.path()).cloned(),
            shelf.faults.get(uri.path()).copied(),
        )
    };
    match fault {
        Some(Fault::Status(code)) => {
            return StatusCode::from_u16(code)
                .unwrap_or(StatusCode::BAD_GATEWAY)
                .into_response();
        }
        Some(Fault::Delay(seconds)) => tokio::time::sleep(Duration::from_secs(seconds)).await,
        _ => {}
    }
    match content {
        None => StatusCode::NOT_FOUND.into_response(),
        Some(Content::Text(text)) => text.into_response(),
        Some(Content::File(path)) => match tokio::fs::File::open(&path).await {
            Ok(file) => send(file, fault, &method).await,
            Err(error) => (StatusCode::NOT_FOUND, error.to_string()).into_response(),
        },
    }
}

async fn send(file: tokio::fs::File, fault: Option<Fault>, method: &Method) -> Response {
    let length = match file.metadata().await {
        Ok(meta) => meta.len(),
        Err(error) => {
            return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
        }
    };
    let body = match method {
        &Method::HEAD => Body::empty(),
        _ => Body::from_stream(Faulty {
            file,
            sent: 0,
            fault,
        }),
    };
    ([(header::CONTENT_LENGTH, length.to_string())], body).into_response()
}

/// A file's bytes with the fault put in.
struct Faulty {
    file: tokio::fs::File,
    sent: u64,
    fault: Option<Fault>,
}

impl Stream for Faulty {
    type Item = std::io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut space = vec![0; 256 << 10];
        let mut buffer = ReadBuf::new(&mut space);
        match Pin::new(&mut self.file).poll_read(cx, &mut buffer) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
            Poll::Ready(Ok(())) => {}
        }
        let length = buffer.filled().len();
        if length == 0 {
            return Poll::Ready(None);
        }
        space.truncate(length);
        let start = self.sent;
        self.sent += length as u64;
        match self.fault {
            Some(Fault::Corrupt(at)) if (start..self.sent).contains(&at) => {
                if let Some(byte) = usize::try_from(at - start)
                    .ok()
                    .and_then(|i| space.get_mut(i))
                {
                    *byte ^= 1;
                }
            }
            Some(Fault::CutShort(at)) if at < self.sent => {
                return Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionReset.into())));
            }
            _ => {}
        }
        Poll::Ready(Some(Ok(space.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::Fault;
    use super::Faulty;
    use futures_util::StreamExt;

    async fn read(fault: Option<Fault>) -> (Vec<u8>, bool) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        std::fs::write(&path, vec![7; 600 << 10]).unwrap();
        let file = tokio::fs::File::open(&path).await.unwrap();
        let mut stream = Faulty {
            file,
            sent: 0,
            fault,
        };
        let mut bytes = Vec::new();
        while let Some(part) = stream.next().await {
            match part {
                Ok(part) => bytes.extend_from_slice(&part),
                Err(_) => return (bytes, true),
            }
        }
        (bytes, false)
    }

    #[tokio::test]
    async fn one_byte_is_flipped_and_no_other() {
        let (bytes, broken) = read(Some(Fault::Corrupt(300_000))).await;
        assert!(!broken && bytes.len() == 600 << 10);
        assert_eq!(bytes[300_000], 6);
        assert_eq!(bytes.iter().filter(|byte| **byte != 7).count(), 1);
    }

    #[tokio::test]
    async fn a_cut_ends_with_an_error() {
        let (bytes, broken) = read(Some(Fault::CutShort(300_000))).await;
        assert!(broken && bytes.len() <= 300_000);
        assert_eq!(read(None).await, (vec![7; 600 << 10], false));
    }
}
