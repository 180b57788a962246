//! A plain HTTP server for the files of one folder, on loopback, with ranges:
//! fast enough not to be what is measured.

use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Seek;
use std::io::SeekFrom;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;

/// Serves until the process ends; one thread a connection.
#[derive(Debug)]
pub struct FileServer {
    address: SocketAddr,
}

impl FileServer {
    /// Starts to serve the files of a folder.
    pub fn start(folder: &Path) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listening on loopback")?;
        let address = listener.local_addr()?;
        let folder = folder.to_owned();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let folder = folder.clone();
                std::thread::spawn(move || serve(stream, &folder));
            }
        });
        Ok(Self { address })
    }

    /// The URL of a file.
    pub fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }
}

/// Answers requests on one connection until it closes.
fn serve(stream: TcpStream, folder: &Path) -> Result<()> {
    let mut requests = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let mut line = String::new();
        if requests.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split_whitespace();
        let head_only = words.next() == Some("HEAD");
        let name = words
            .next()
            .unwrap_or("/")
            .trim_start_matches('/')
            .to_owned();
        let range = read_range(&mut requests)?;
        answer(&mut stream, folder.join(name), head_only, range)?;
    }
}

/// Reads the header lines; gives `Range: bytes=A-B` if there is one.
fn read_range(requests: &mut BufReader<TcpStream>) -> Result<Option<(u64, Option<u64>)>> {
    let mut range = None;
    loop {
        let mut line = String::new();
        requests.read_line(&mut line)?;
        let line = line.trim();
        if line.is_empty() {
            return Ok(range);
        }
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        if let Some((from, to)) = value
            .trim()
            .strip_prefix("bytes=")
            .and_then(|r| r.split_once('-'))
            && name.eq_ignore_ascii_case("range")
        {
            range = from.parse().ok().map(|from| (from, to.parse().ok()));
        }
    }
}

fn answer(
    stream: &mut TcpStream,
    path: PathBuf,
    head_only: bool,
    range: Option<(u64, Option<u64>)>,
) -> Result<()> {
    let Ok(mut file) = File::open(&path) else {
        stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
        return Ok(());
    };
    let size = file.metadata()?.len();
    let (from, to) = match range {
        Some((from, to)) => (from.min(size), to.map_or(size, |to| (to + 1).min(size))),
        None => (0, size),
    };
    let length = to.saturating_sub(from);
    let head = match range {
        Some(_) => format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{}/{size}\r\n",
            to.saturating_sub(1)
        ),
        None => "HTTP/1.1 200 OK\r\n".to_owned(),
    };
    let rest =
        format!("Accept-Ranges: bytes\r\nETag: \"{size}\"\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all((head + &rest).as_bytes())?;
    if !head_only {
        file.seek(SeekFrom::Start(from))?;
        // `io::copy` uses sendfile between a file and a socket.
        std::io::copy(&mut file.take(length), stream)?;
    }
    Ok(())
}
