//! Serving bytes with `HEAD` and one `Range` (RFC 9110 §14): BMCs read virtual
//! media piece by piece.

use std::io;
use std::io::SeekFrom;
use std::ops::Range;
use std::path::Path;
use std::path::PathBuf;

use axum::body::Body;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::Method;
use axum::http::Response;
use axum::http::StatusCode;
use axum::http::header;
use futures_util::stream;
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncSeekExt;

/// Bytes read and sent at a time.
const CHUNK: usize = 256 << 10;

/// One stretch of what is served.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    /// Bytes in memory.
    Memory(Bytes),
    /// The first `len` bytes of a file.
    File {
        /// Which.
        path: PathBuf,
        /// How many.
        len: u64,
    },
}

impl Part {
    fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File { len, .. } => *len,
        }
    }
}

/// A file with its present length.
pub(crate) async fn whole(path: &Path) -> io::Result<Part> {
    let meta = tokio::fs::metadata(path).await?;
    if !meta.is_file() {
        return Err(io::Error::other("not a file"));
    }
    Ok(Part::File {
        path: path.to_owned(),
        len: meta.len(),
    })
}

/// What a `Range` header asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Whole,
    Part(Range<u64>),
    Outside,
}

fn asked(headers: &HeaderMap, total: u64) -> Asked {
    let Some(text) = headers
        .get(header::RANGE)
        .and_then(|value| value.to_str().ok())
    else {
        return Asked::Whole;
    };
    // Several ranges, or another unit: the whole is a fit answer (§14.2).
    let Some((from, to)) = text
        .strip_prefix("bytes=")
        .and_then(|range| range.split_once('-'))
    else {
        return Asked::Whole;
    };
    let (from, to) = (from.trim(), to.trim());
    let range = match (from.parse::<u64>(), to.parse::<u64>()) {
        (Ok(from), Ok(to)) if from <= to => from..to.saturating_add(1).min(total),
        (Ok(from), Err(_)) if to.is_empty() => from..total,
        (Err(_), Ok(last)) if from.is_empty() => total.saturating_sub(last)..total,
        _ => return Asked::Whole,
    };
    if range.start >= total || range.is_empty() {
        Asked::Outside
    } else {
        Asked::Part(range)
    }
}

/// Answers a request for the parts, one after the other.
pub(crate) fn serve(
    method: &Method,
    headers: &HeaderMap,
    kind: &'static str,
    parts: Vec<Part>,
) -> Response<Body> {
    let total = parts.iter().map(Part::len).sum();
    let mut answer = Response::new(Body::empty());
    let (status, range) = match asked(headers, total) {
        Asked::Whole => (StatusCode::OK, 0..total),
        Asked::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
        Asked::Outside => (StatusCode::RANGE_NOT_SATISFIABLE, 0..0),
    };
    *answer.status_mut() = status;
    let mut set = |name, value: String| {
        // Digits and a few fixed words are always a good header.
        if let Ok(value) = value.parse() {
            answer.headers_mut().insert(name, value);
        }
    };
    set(header::ACCEPT_RANGES, "bytes".to_owned());
    set(header::CONTENT_TYPE, kind.to_owned());
    set(header::CACHE_CONTROL, "no-store".to_owned());
    match status {
        StatusCode::PARTIAL_CONTENT => {
            let text = format!("bytes {}-{}/{total}", range.start, range.end - 1);
            set(header::CONTENT_RANGE, text);
        }
        StatusCode::RANGE_NOT_SATISFIABLE => set(header::CONTENT_RANGE, format!("bytes */{total}")),
        _ => {}
    }
    set(
        header::CONTENT_LENGTH,
        (range.end - range.start).to_string(),
    );
    if *method != Method::HEAD && !range.is_empty() {
        *answer.body_mut() = Body::from_stream(read(parts, range));
    }
    answer
}

struct Reading {
    parts: std::vec::IntoIter<Part>,
    /// Bytes to pass over in the parts to come.
    skip: u64,
    left: u64,
    file: Option<(File, u64)>,
}

fn read(parts: Vec<Part>, range: Range<u64>) -> impl stream::Stream<Item = io::Result<Bytes>> {
    let state = Reading {
        parts: parts.into_iter(),
        skip: range.start,
        left: range.end - range.start,
        file: None,
    };
    stream::try_unfold(state, |mut state| async move {
        let bytes = state.next().await?;
        Ok(bytes.map(|bytes| (bytes, state)))
    })
}

impl Reading {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            if let Some((file, len)) = &mut self.file {
                let want = self.left.min(*len).min(CHUNK as u64);
                if want == 0 {
                    self.file = None;
                    continue;
                }
                let mut chunk = vec![0; usize::try_from(want).unwrap_or(CHUNK)];
                let got = file.read(&mut chunk).await?;
                if got == 0 {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
                }
                chunk.truncate(got);
                *len -= got as u64;
                self.left -= got as u64;
                return Ok(Some(chunk.into()));
            }
            let Some(part) = self.parts.next() else {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            };
            if self.skip >= part.len() {
                self.skip -= part.len();
                continue;
            }
            let skip = std::mem::take(&mut self.skip);
            match part {
                Part::Memory(bytes) => {
                    let start = usize::try_from(skip).unwrap_or(usize::MAX).min(bytes.len());
                    let room = usize::try_from(self.left).unwrap_or(usize::MAX);
                    let end = start.saturating_add(room).min(bytes.len());
                    self.left -= (end - start) as u64;
                    return Ok(Some(bytes.slice(start..end)));
                }
                Part::File { path, len } => {
                    let mut file = File::open(&path).await?;
                    file.seek(SeekFrom::Start(skip)).await?;
                    self.file = Some((file, len - skip));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use axum::http::HeaderMap;
    use axum::http::Method;
    use axum::http::StatusCode;
    use axum::http::header;

    use super::Part;
    use super::serve;
    use super::whole;

    #[tokio::test]
    async fn any_range_over_memory_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part");
        let data: Vec<u8> = (0..=255).cycle().take(700_000).collect();
        std::fs::write(&path, &data).unwrap();
        let mut all = b"head".to_vec();
        all.extend_from_slice(&data);
        all.extend_from_slice(b"tail");
        let parts = vec![
            Part::Memory(b"head".as_slice().into()),
            whole(&path).await.unwrap(),
            Part::Memory(b"tail".as_slice().into()),
        ];
        let total = all.len();
        let ask = async |method: Method, range: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(range) = range {
                headers.insert(header::RANGE, range.parse().unwrap());
            }
            let answer = serve(&method, &headers, "application/octet-stream", parts.clone());
            let status = answer.status();
            let length = answer.headers()[header::CONTENT_LENGTH]
                .to_str()
                .unwrap()
                .to_owned();
            let bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            (status, length, bytes)
        };
        let (status, length, bytes) = ask(Method::GET, None).await;
        assert_eq!(
            (status, length, &bytes[..]),
            (StatusCode::OK, total.to_string(), &all[..])
        );
        let (status, length, bytes) = ask(Method::HEAD, None).await;
        assert_eq!(
            (status, length, bytes.len()),
            (StatusCode::OK, total.to_string(), 0)
        );
        for (range, want) in [
            ("bytes=0-0", &all[..1]),
            ("bytes=2-9", &all[2..10]),
            ("bytes=600000-", &all[600_000..]),
            ("bytes=-6", &all[total - 6..]),
            ("bytes=3-99999999", &all[3..]),
        ] {
            let (status, length, bytes) = ask(Method::GET, Some(range)).await;
            assert_eq!(status, StatusCode::PARTIAL_CONTENT, "{range}");
            assert_eq!(length, want.len().to_string(), "{range}");
            assert!(&bytes[..] == want, "{range}");
        }
        let (status, ..) = ask(Method::GET, Some(&format!("bytes={total}-"))).await;
        assert_eq!(status, StatusCode::RANGE_NOT_SATISFIABLE);
        let (status, ..) = ask(Method::GET, Some("bytes=0-1,5-6")).await;
        assert_eq!(status, StatusCode::OK);
    }
}
