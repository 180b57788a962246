//! A server whose every answer is the test's.

use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Number of the request, from 0.
    pub(crate) number: usize,
    /// Path, or the whole URL for a proxy.
    pub(crate) target: String,
    headers: Vec<(String, String)>,
}

impl Asked {
    pub(crate) fn new(number: usize, target: String, headers: Vec<(String, String)>) -> Self {
        Self {
            number,
            target,
            headers,
        }
    }

    /// A header by its lower-case name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// First byte that is wanted, and the one behind the last.
    pub(crate) fn range(&self) -> Option<(usize, Option<usize>)> {
        let range = self.header("range")?.strip_prefix("bytes=")?;
        let (first, last) = range.split_once('-')?;
        let end = last.parse::<usize>().ok().map(|last| last + 1);
        Some((first.parse().ok()?, end))
    }
}

/// What is sent back.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// Send only so much of the body, then close.
    pub(crate) cut: Option<usize>,
    /// Send the body in chunks, without a length.
    pub(crate) chunked: bool,
}

impl Reply {
    pub(crate) fn new(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            cut: None,
            chunked: false,
        }
    }

    pub(crate) fn body(bytes: &[u8]) -> Self {
        let mut reply = Self::new(200);
        reply.body = bytes.to_vec();
        reply
    }

    /// What a server with ranges answers.
    pub(crate) fn ranged(asked: &Asked, bytes: &[u8]) -> Self {
        match asked.range() {
            Some((first, end)) => Self::part(bytes, first, end.unwrap_or(bytes.len())),
            None => Self::body(bytes),
        }
    }

    /// Bytes `first..end` as a partial answer.
    pub(crate) fn part(bytes: &[u8], first: usize, end: usize) -> Self {
        let range = format!("bytes {first}-{}/{}", end - 1, bytes.len());
        let mut reply = Self::body(&bytes[first..end]).header("content-range", range);
        reply.status = 206;
        reply
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn cut(mut self, at: usize) -> Self {
        self.cut = Some(at);
        self
    }

    pub(crate) fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    pub(crate) fn redirect(to: &str) -> Self {
        Self::new(302).header("location", to)
    }

    pub(crate) fn send(&self, stream: &mut impl Write) -> std::io::Result<()> {
        let mut head = format!("HTTP/1.1 {} Scripted\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if self.chunked {
            head += "transfer-encoding: chunked\r\n\r\n";
        } else {
            head += &format!("content-length: {}\r\n\r\n", self.body.len());
        }
        stream.write_all(head.as_bytes())?;
        let sent = &self.body[..self.cut.unwrap_or(self.body.len())];
        if self.chunked {
            for chunk in sent.chunks(60_000) {
                write!(stream, "{:x}\r\n", chunk.len())?;
                stream.write_all(chunk)?;
                stream.write_all(b"\r\n")?;
            }
            if self.cut.is_none() {
                stream.write_all(b"0\r\n\r\n")?;
            }
        } else {
            stream.write_all(sent)?;
        }
        stream.flush()
    }
}

/// A running server.
pub(crate) struct Scripted {
    /// `http://ADDR:PORT`.
    pub(crate) base: String,
    /// `ADDR:PORT`.
    pub(crate) host: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Scripted {
    pub(crate) fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self::on(listener, answer)
    }

    pub(crate) fn on(
        listener: TcpListener,
        answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let host = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                thread::spawn(move || {
                    let _ = serve(stream, &log, &*answer);
                });
            }
        });
        Self {
            base: format!("http://{host}"),
            host,
            asked,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// All requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// Reads the head of a request; `None` at the end of the connection.
pub(crate) fn head(reader: &mut impl BufRead) -> Option<(String, Vec<(String, String)>)> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let target = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim().split_once(": ") {
            Some((key, value)) => headers.push((key.to_ascii_lowercase(), value.to_owned())),
            None => return Some((target, headers)),
        }
    }
}

fn serve(
    stream: TcpStream,
    log: &Mutex<Vec<Asked>>,
    answer: &dyn Fn(&Asked) -> Reply,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while let Some((target, headers)) = head(&mut reader) {
        let asked = {
            let mut log = log.lock().unwrap();
            let asked = Asked::new(log.len(), target, headers);
            log.push(asked.clone());
            asked
        };
        let reply = answer(&asked);
        reply.send(&mut writer)?;
        if reply.cut.is_some() {
            break;
        }
    }
    writer.shutdown(std::net::Shutdown::Both)?;
    reader.read_to_end(&mut Vec::new())?;
    Ok(())
}
