//! Load on an HTTP server: clients that each keep one connection and send one
//! request after the other. Requests are bytes that are ready before the clock
//! starts, answers are read and not parsed, so that the client is not what is
//! measured.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use rustls::DigitallySignedStruct;
use rustls::SignatureScheme;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::danger::ServerCertVerified;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::ServerName;
use rustls::pki_types::UnixTime;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// The microversion that requests ask for.
const VERSION: &str = "1.92";
/// The largest head of an answer that is read.
const HEAD: usize = 16 << 10;
/// The largest body that is read.
const BODY: usize = 64 << 20;
/// For one answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where requests go.
#[derive(Clone)]
pub struct Target {
    /// The server.
    pub address: SocketAddr,
    /// TLS to it; none: plain HTTP.
    pub tls: Option<TlsConnector>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// TLS to the server whose certificate is the first in a PEM file. It is known
/// byte for byte; signatures are not checked and sessions not resumed, so that
/// thousands of handshakes cost the server all that they can and the clients,
/// who share its processors, little.
pub fn knowing(certificate: &Path) -> Result<TlsConnector> {
    let shown = certificate.display();
    let pem = std::fs::read(certificate).with_context(|| format!("reading {shown}"))?;
    let leaf = CertificateDer::from_pem_slice(&pem).with_context(|| format!("parsing {shown}"))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let known = Known {
        leaf,
        schemes: provider
            .signature_verification_algorithms
            .supported_schemes(),
    };
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(known))
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[derive(Debug)]
struct Known {
    leaf: CertificateDer<'static>,
    schemes: Vec<SignatureScheme>,
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if *end_entity == self.leaf {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}

/// A request, ready to be sent.
pub fn request(method: &str, path: &str, body: Option<&Value>) -> Vec<u8> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let about = if body.is_empty() && method == "GET" {
        String::new()
    } else {
        let length = body.len();
        format!("Content-Type: application/json\r\nContent-Length: {length}\r\n")
    };
    format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\
         X-OpenStack-Ironic-API-Version: {VERSION}\r\n{about}\r\n{body}"
    )
    .into_bytes()
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// One client's connection, made anew when the server has closed it.
pub struct Connection {
    target: Target,
    stream: Option<Box<dyn Stream>>,
    buffer: Vec<u8>,
    /// Connections made so far.
    pub connected: u64,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("target", &self.target)
            .field("connected", &self.connected)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// A client that connects with its first request.
    pub fn new(target: &Target) -> Self {
        Self {
            target: target.clone(),
            stream: None,
            buffer: Vec::new(),
            connected: 0,
        }
    }

    /// Sends a request and reads the whole answer; gives its status. A
    /// connection that has been idle may be closed by the server at that very
    /// moment: then it is tried once more on a fresh one.
    pub async fn exchange(&mut self, request: &[u8]) -> Result<u16> {
        let kept = self.stream.is_some();
        match tokio::time::timeout(PATIENCE, self.once(request)).await {
            Ok(Err(_)) if kept => {
                self.stream = None;
                tokio::time::timeout(PATIENCE, self.once(request))
                    .await
                    .context("no answer in time")?
            }
            Ok(outcome) => outcome,
            Err(_) => bail!("no answer within {PATIENCE:?}"),
        }
    }

    async fn once(&mut self, request: &[u8]) -> Result<u16> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                self.connected += 1;
                none.insert(connect(&self.target).await?)
            }
        };
        stream.write_all(request).await?;
        stream.flush().await?;
        let (status, close) = answer(stream, &mut self.buffer).await?;
        if close {
            self.stream = None;
        }
        Ok(status)
    }
}

async fn connect(target: &Target) -> Result<Box<dyn Stream>> {
    let stream = TcpStream::connect(target.address).await?;
    stream.set_nodelay(true)?;
    Ok(match &target.tls {
        None => Box::new(stream),
        Some(tls) => {
            let name = ServerName::IpAddress(target.address.ip().into());
            Box::new(tls.connect(name, stream).await?)
        }
    })
}

/// Reads one answer: its status, and whether the connection ends with it.
async fn answer(stream: &mut Box<dyn Stream>, buffer: &mut Vec<u8>) -> Result<(u16, bool)> {
    buffer.clear();
    let head = loop {
        if let Some(at) = find(buffer, b"\r\n\r\n") {
            break at + 4;
        }
        ensure!(buffer.len() < HEAD, "an answer without an end of its head");
        ensure!(stream.read_buf(buffer).await? > 0, "connection closed");
    };
    let text = std::str::from_utf8(&buffer[..head]).context("a head that is no text")?;
    let status = text
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .context("an answer without status")?;
    let field = |name: &str| {
        text.lines().find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    };
    let close = field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    let length: Option<usize> = field("content-length").and_then(|value| value.parse().ok());
    let chunked = field("transfer-encoding").is_some_and(|value| value.contains("chunked"));
    if chunked {
        while !buffer[head..].ends_with(b"0\r\n\r\n") {
            ensure!(buffer.len() < BODY, "an answer larger than {BODY} bytes");
            ensure!(stream.read_buf(buffer).await? > 0, "answer cut short");
        }
    } else if let Some(length) = length {
        ensure!(length < BODY, "an answer of {length} bytes");
        while buffer.len() < head + length {
            ensure!(stream.read_buf(buffer).await? > 0, "answer cut short");
        }
    } else if !matches!(status, 204 | 304) {
        bail!("an answer without a length");
    }
    Ok((status, close))
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

/// What one run of the clients gave.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Answers of status 2xx a second.
    pub rate: f64,
    /// Median of the time that an answer took, milliseconds.
    pub p50: f64,
    /// 99 of 100 answers came within, milliseconds.
    pub p99: f64,
    /// Answers of another status.
    pub refused: u64,
}

/// The n-th request of a client.
pub type Requests = Arc<dyn Fn(usize, usize) -> Vec<u8> + Send + Sync>;

/// Lets `clients` send for `span`.
pub async fn run(
    target: &Target,
    clients: usize,
    span: Duration,
    requests: &Requests,
) -> Result<Figures> {
    let started = Instant::now();
    let mut workers = JoinSet::new();
    for client in 0..clients {
        let (target, requests) = (target.clone(), Arc::clone(requests));
        workers.spawn(async move {
            let mut connection = Connection::new(&target);
            let (mut times, mut refused, mut last) = (Vec::new(), 0, Instant::now());
            for number in 0.. {
                if started.elapsed() >= span {
                    break;
                }
                let request = requests(client, number);
                let sent = Instant::now();
                let status = connection.exchange(&request).await?;
                last = Instant::now();
                if (200..300).contains(&status) {
                    times.push(last.duration_since(sent).as_secs_f64() * 1e3);
                } else {
                    refused += 1;
                }
            }
            Ok::<_, anyhow::Error>((times, refused, last))
        });
    }
    let (mut times, mut refused, mut last) = (Vec::new(), 0, started);
    while let Some(worker) = workers.join_next().await {
        let (of_one, no, end) = worker??;
        times.extend(of_one);
        refused += no;
        last = last.max(end);
    }
    let seconds = last.duration_since(started).as_secs_f64();
    Ok(Figures {
        rate: times.len() as f64 / seconds.max(f64::MIN_POSITIVE),
        p50: percentile(&mut times, 0.50),
        p99: percentile(&mut times, 0.99),
        refused,
    })
}

/// The value below which `share` of the values lie; sorts them.
pub fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    let at = (values.len() as f64 * share) as usize;
    values.get(at.min(last)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::Stream;
    use super::answer;
    use super::percentile;
    use super::request;

    async fn read(text: &str) -> anyhow::Result<(u16, bool)> {
        let (mut far, near) = tokio::io::duplex(1 << 16);
        far.write_all(text.as_bytes()).await?;
        drop(far);
        let mut near: Box<dyn Stream> = Box::new(near);
        answer(&mut near, &mut Vec::new()).await
    }

    #[tokio::test]
    async fn answers_of_every_form() {
        for (text, status, close) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, false),
            ("HTTP/1.1 204 No Content\r\n\r\n", 204, false),
            (
                "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nConnection: close\r\n\r\n",
                202,
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
                200,
                false,
            ),
        ] {
            assert_eq!(read(text).await.unwrap(), (status, close), "{text}");
        }
        for text in [
            "",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\n\r\n",
        ] {
            assert!(read(text).await.is_err(), "{text}");
        }
    }

    #[test]
    fn requests_and_percentiles() {
        let text = String::from_utf8(request("GET", "/v1", None)).unwrap();
        assert!(text.starts_with("GET /v1 HTTP/1.1\r\n") && text.ends_with("\r\n\r\n"));
        let body = serde_json::json!({"a": 1});
        let text = String::from_utf8(request("POST", "/", Some(&body))).unwrap();
        assert!(text.contains("Content-Length: 7\r\n") && text.ends_with("\r\n\r\n{\"a\":1}"));
        let mut values: Vec<f64> = (0..100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut values, 0.5), 50.0);
        assert_eq!(percentile(&mut values, 0.99), 99.0);
        assert!(percentile(&mut [], 0.5).is_nan());
    }
}
