//! An image that a server outside sends slowly, and the agent's own data path
//! that writes it.

use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::net::TcpListener;
use std::net::TcpStream;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use nix::sched::CloneFlags;
use nix::sched::setns;
use sha2::Digest;
use sha2::Sha256;
use wrought_image::CancelToken;
use wrought_image::Error;
use wrought_image::Format;
use wrought_image::Layout;
use wrought_image::Retry;
use wrought_image::WriteReport;
use wrought_image::WriteRequest;

const SIZE: usize = 32 << 20;
const PIECE: usize = 16 << 10;
/// Between two pieces: all of it would take minutes.
const PAUSE: Duration = Duration::from_millis(250);

/// Serves the image; ends with the test.
pub(crate) struct Server {
    url: String,
    image: Arc<Vec<u8>>,
    sent: Arc<AtomicU64>,
    hurry: Arc<AtomicBool>,
    requests: Arc<AtomicU64>,
}

impl Server {
    /// A server in this namespace, at this address of it.
    pub(crate) fn start(namespace: &Path, address: &str) -> Self {
        let namespace = std::fs::File::open(namespace).unwrap();
        let address = (address.to_owned(), 80);
        // Namespaces are threads' own.
        let bound = thread::spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            TcpListener::bind((address.0.as_str(), address.1)).unwrap()
        });
        let listener = bound.join().unwrap();
        let url = format!("http://{}/image", listener.local_addr().unwrap());
        let image: Vec<u8> = (0..SIZE / 8)
            .flat_map(|n| (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
            .collect();
        let server = Self {
            url,
            image: Arc::new(image),
            sent: Arc::default(),
            hurry: Arc::default(),
            requests: Arc::default(),
        };
        let (image, sent) = (Arc::clone(&server.image), Arc::clone(&server.sent));
        let (hurry, requests) = (Arc::clone(&server.hurry), Arc::clone(&server.requests));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                requests.fetch_add(1, Ordering::Relaxed);
                let (image, sent) = (Arc::clone(&image), Arc::clone(&sent));
                let hurry = Arc::clone(&hurry);
                // A connection that broke is the other side's to make anew.
                thread::spawn(move || serve(stream, &image, &sent, &hurry).ok());
            }
        });
        server
    }

    /// Bytes that went out.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Connections so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// The rest goes out at once.
    pub(crate) fn hurry(&self) {
        self.hurry.store(true, Ordering::Relaxed);
    }

    /// Writes the image to a file; the handle gives how that went.
    pub(crate) fn write(&self, target: &Path) -> Writing {
        let mut request = WriteRequest::new(&self.url, target);
        let digest = Sha256::digest(self.image.as_slice());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        request.checksum = Some(format!("sha256:{digest}"));
        request.format = Some(Format::Raw);
        request.layout = Layout::Partition;
        request.retry = Retry {
            // As in the ramdisk, with less waiting.
            delay: Duration::from_secs(2),
            stall: Duration::from_secs(10),
            ..Retry::default()
        };
        std::fs::write(target, []).unwrap();
        let file = std::fs::File::options().write(true).open(target).unwrap();
        file.set_len(SIZE as u64).unwrap();
        let cancel = request.cancel.clone();
        let running = tokio::task::spawn_blocking(move || wrought_image::write(&request));
        Writing {
            running,
            cancel,
            target: target.to_owned(),
            image: Arc::clone(&self.image),
        }
    }
}

/// A write that goes on.
pub(crate) struct Writing {
    running: tokio::task::JoinHandle<Result<WriteReport, Error>>,
    cancel: CancelToken,
    target: PathBuf,
    image: Arc<Vec<u8>>,
}

impl Writing {
    pub(crate) fn is_finished(&self) -> bool {
        self.running.is_finished()
    }

    /// Waits for its end; all of the image is there then.
    pub(crate) async fn ends_well(mut self) {
        let ended = tokio::time::timeout(crate::outside::PATIENCE, &mut self.running).await;
        ended.expect("the write ended").unwrap().unwrap();
        assert!(std::fs::read(&self.target).unwrap() == *self.image);
    }
}

/// A test that fails does not wait for it.
impl Drop for Writing {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// Answers one request, from the byte that it asks for on.
fn serve(
    mut stream: TcpStream,
    image: &[u8],
    sent: &AtomicU64,
    hurry: &AtomicBool,
) -> std::io::Result<()> {
    let mut from = 0;
    for line in BufReader::new(stream.try_clone()?).lines() {
        let line = line?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(range) = line.strip_prefix("range: bytes=") {
            let first = range.split('-').next().unwrap_or_default();
            from = first.parse().map_err(std::io::Error::other)?;
        }
    }
    let rest = image.get(from..).unwrap_or_default();
    let status = match from {
        0 => "200 OK".to_owned(),
        _ => format!(
            "206 Partial Content\r\nContent-Range: bytes {from}-{}/{}",
            image.len() - 1,
            image.len()
        ),
    };
    let length = rest.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: \"1\"\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    for piece in rest.chunks(PIECE) {
        stream.write_all(piece)?;
        sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
        if !hurry.load(Ordering::Relaxed) {
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}
