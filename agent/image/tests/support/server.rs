//! An HTTP server that can do everything wrong.

use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::net::TcpListener;
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt;

/// What is served.
pub(crate) enum Body {
    Bytes(Vec<u8>),
    File(File),
}

impl Body {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(file) => file.metadata().unwrap().len(),
        }
    }

    fn read(&self, at: u64, len: usize) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes[at as usize..at as usize + len].to_vec(),
            Self::File(file) => {
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, at).unwrap();
                bytes
            }
        }
    }
}

/// How one request is answered.
#[derive(Clone)]
pub(crate) struct Answer {
    /// Anything but 200 is sent without a body.
    pub(crate) status: u16,
    /// Honour `Range`.
    pub(crate) ranges: bool,
    /// Close after this many bytes of the body.
    pub(crate) cut: Option<u64>,
    /// Announce a length that is off by this much.
    pub(crate) length_off: i64,
    /// Send no length, in chunks.
    pub(crate) chunked: bool,
    /// Flip one bit of this byte of the image.
    pub(crate) corrupt: Option<u64>,
    /// Stop sending at the cut instead of closing.
    pub(crate) stall: bool,
    /// Reset the connection at the cut instead of closing it in order.
    pub(crate) reset: bool,
    /// Send pieces of this many bytes.
    pub(crate) piece: usize,
    /// From this place on, send bytes that are this far ahead or behind:
    /// some are lost, or come twice.
    pub(crate) slip: Option<(u64, i64)>,
    /// Say in `Content-Range` that the answer starts this much farther on.
    pub(crate) range_off: i64,
    pub(crate) etag: Option<&'static str>,
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            status: 200,
            ranges: true,
            cut: None,
            length_off: 0,
            chunked: false,
            corrupt: None,
            stall: false,
            reset: false,
            piece: 64 << 10,
            slip: None,
            range_off: 0,
            etag: Some("\"v1\""),
        }
    }
}

/// A running server.
pub(crate) struct Server {
    pub(crate) url: String,
    requests: Arc<AtomicU32>,
}

impl Server {
    /// Serves `body`; `plan` decides by the number of the request, from 0.
    pub(crate) fn start(body: Body, plan: impl Fn(u32) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/images/disk.img", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&requests);
        let (body, plan) = (Arc::new(body), Arc::new(plan));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (body, plan) = (Arc::clone(&body), Arc::clone(&plan));
                let counter = Arc::clone(&counter);
                thread::spawn(move || {
                    let _ = serve(&stream, &body, &|| {
                        plan(counter.fetch_add(1, Ordering::Relaxed))
                    });
                });
            }
        });
        Self { url, requests }
    }

    /// Serves `bytes` without faults.
    pub(crate) fn plain(bytes: Vec<u8>) -> Self {
        Self::start(Body::Bytes(bytes), |_| Answer::default())
    }

    pub(crate) fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }
}

fn serve(stream: &TcpStream, body: &Body, plan: &dyn Fn() -> Answer) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut range = None;
        let mut if_range = None;
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            let header = header.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("range: bytes=") {
                range = Some(value.to_owned());
            }
            if let Some(value) = header.strip_prefix("if-range: ") {
                if_range = Some(value.to_owned());
            }
        }
        let answer = plan();
        if answer.status != 200 {
            let status = answer.status;
            write!(
                &*stream,
                "HTTP/1.1 {status} Fault\r\ncontent-length: 0\r\n\r\n"
            )?;
            continue;
        }
        let fresh = if_range.is_none() || if_range.as_deref() == answer.etag;
        let range = range.filter(|_| answer.ranges && fresh);
        send(stream, body, &answer, range)?;
        if answer.reset {
            return reset(stream);
        }
        if answer.cut.is_some() || answer.length_off != 0 {
            return Ok(());
        }
    }
}

/// Makes the connection end with a reset: what was not read is lost.
fn reset(stream: &TcpStream) -> std::io::Result<()> {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(stream, sockopt::Linger, &linger)?;
    Ok(())
}

fn send(
    mut stream: &TcpStream,
    body: &Body,
    answer: &Answer,
    range: Option<String>,
) -> std::io::Result<()> {
    let total = body.len();
    let (first, end) = match &range {
        Some(range) => {
            let (first, last) = range.split_once('-').unwrap();
            (
                first.parse().unwrap(),
                last.parse::<u64>().map_or(total, |last| last + 1),
            )
        }
        None => (0, total),
    };
    let mut head = match range {
        Some(_) => {
            let last = end - 1;
            let first = u64::saturating_add_signed(first, answer.range_off);
            format!("HTTP/1.1 206 Part\r\ncontent-range: bytes {first}-{last}/{total}\r\n")
        }
        None => "HTTP/1.1 200 OK\r\n".to_owned(),
    };
    if let Some(etag) = answer.etag {
        head += &format!("etag: {etag}\r\n");
    }
    if answer.chunked {
        head += "transfer-encoding: chunked\r\n\r\n";
    } else {
        let length = (end - first) as i64 + answer.length_off;
        head += &format!("content-length: {length}\r\n\r\n");
    }
    stream.write_all(head.as_bytes())?;
    let stop = answer.cut.map_or(end, |cut| end.min(first + cut));
    let mut at = first;
    while at < stop {
        let len = (stop - at).min(answer.piece as u64) as usize;
        let place = match answer.slip {
            Some((from, by)) if at >= from => at.saturating_add_signed(by).min(total - len as u64),
            _ => at,
        };
        let mut bytes = body.read(place, len);
        if let Some(corrupt) = answer.corrupt
            && (at..at + len as u64).contains(&corrupt)
        {
            bytes[(corrupt - at) as usize] ^= 1;
        }
        if answer.chunked {
            write!(stream, "{len:x}\r\n")?;
        }
        stream.write_all(&bytes)?;
        if answer.chunked {
            stream.write_all(b"\r\n")?;
        }
        at += len as u64;
    }
    if answer.stall {
        thread::sleep(Duration::from_secs(3));
    } else if answer.chunked && answer.cut.is_none() {
        stream.write_all(b"0\r\n\r\n")?;
    }
    stream.flush()
}
