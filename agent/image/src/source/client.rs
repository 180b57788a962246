//! The HTTP client that all places of one image share.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use bytes::Bytes;
use reqwest::Client;
use reqwest::NoProxy;
use reqwest::Proxy;
use reqwest::RequestBuilder;
use reqwest::Response;
use reqwest::Url;
use reqwest::header;
use reqwest::redirect::Attempt;
use reqwest::redirect::Policy;
use tokio::runtime::Runtime;

use super::Failed;
use super::pace::Pace;
use super::tls;
use crate::control::Control;
use crate::control::Stopped;
use crate::control::TICK;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::redact;
use crate::request::HttpOptions;
use crate::request::Retry;

/// Redirects that are followed.
const REDIRECTS: usize = 10;

/// A client with what its requests need to be waited for.
pub(super) struct Http {
    runtime: Runtime,
    client: Client,
    pub(super) control: Arc<Control>,
    pub(super) retry: Retry,
}

impl Http {
    /// The client in `slot`, made at the first use.
    pub(super) fn shared(
        slot: &mut Option<Arc<Self>>,
        options: &HttpOptions,
        retry: Retry,
        control: &Arc<Control>,
    ) -> Result<Arc<Self>, Error> {
        if let Some(client) = slot {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new(Self::new(options, retry, Arc::clone(control))?);
        Ok(Arc::clone(slot.insert(client)))
    }

    fn new(options: &HttpOptions, retry: Retry, control: Arc<Control>) -> Result<Self, Error> {
        let fail = |text: String| Error::new(ErrorKind::Request, Stage::Check, text);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| fail("start the HTTP client".to_owned()).caused_by(error))?;
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls::config(options)?)
            .redirect(Policy::custom(redirected))
            .referer(false)
            .connect_timeout(retry.connect)
            .http1_only()
            .no_proxy();
        let proxies = [
            options
                .http_proxy
                .as_ref()
                .map(|address| (address, Proxy::http(address))),
            options
                .https_proxy
                .as_ref()
                .map(|address| (address, Proxy::https(address))),
        ];
        let direct = options.no_proxy.as_deref().unwrap_or_default();
        // As everywhere; the library means names alone by it, no addresses.
        let never = direct.split(',').any(|host| host.trim() == "*");
        for (address, proxy) in proxies.into_iter().flatten().filter(|_| !never) {
            let proxy = proxy.map_err(|error| {
                fail(format!("use the proxy {}", redact::url(address)))
                    .caused_by(error.without_url())
            })?;
            builder = builder.proxy(proxy.no_proxy(NoProxy::from_string(direct)));
        }
        let client = builder.build().map_err(|error| {
            fail("set up the HTTP client".to_owned()).caused_by(error.without_url())
        })?;
        Ok(Self {
            runtime,
            client,
            control,
            retry,
        })
    }

    /// A request for the bytes as they are.
    pub(super) fn get(&self, url: &Url) -> RequestBuilder {
        self.client
            .get(url.clone())
            .header(header::ACCEPT_ENCODING, "identity")
    }

    /// Sends a request and waits for the head of the answer, whatever its
    /// status. `error` makes an error of a sentence.
    pub(super) fn send(
        &self,
        request: RequestBuilder,
        error: impl Fn(&str) -> Error,
    ) -> Result<Response, Failed> {
        self.control.connections.fetch_add(1, Ordering::Relaxed);
        match self.wait(request.send()) {
            Waited::Done(Ok(response)) => Ok(response),
            // A redirect in circles or to what is no HTTP stays one.
            Waited::Done(Err(cause)) if cause.is_redirect() || cause.is_builder() => {
                let text = "the server's redirect cannot be followed";
                Err(Failed::Final(error(text).caused_by(cause.without_url())))
            }
            Waited::Done(Err(cause)) if speaks_otherwise(&cause) => {
                let text = "what answers there does not speak HTTP, or not with TLS as asked \
                            for; is it http or https at this port?";
                Err(Failed::Final(error(text).caused_by(cause.without_url())))
            }
            Waited::Done(Err(cause)) if is_distrust(&cause) => {
                let text = "the server's certificate is not trusted; give its CA with --ca, or \
                            with ipa-image-cafile in the ramdisk";
                Err(Failed::Final(error(text).caused_by(cause.without_url())))
            }
            Waited::Done(Err(cause)) => Err(Failed::Again(
                error("no answer")
                    .caused_by(cause.without_url())
                    .retryable(),
            )),
            Waited::Stalled => Err(self.stalled(error)),
            Waited::Stopped => Err(Failed::Stopped),
        }
    }

    /// Waits for the next part of a body; `None` at its end.
    pub(super) fn chunk(
        &self,
        response: &mut Response,
        pace: &mut Pace,
        error: impl Fn(&str) -> Error,
    ) -> Result<Option<Bytes>, Failed> {
        let (start, period) = (Instant::now(), self.retry.stall);
        match self.wait(response.chunk()) {
            Waited::Done(Ok(chunk)) => {
                let bytes = chunk.as_ref().map_or(0, Bytes::len) as u64;
                match pace.too_slow(start.elapsed(), bytes, period) {
                    Some(came) if chunk.is_some() => {
                        let seconds = period.as_secs_f32();
                        let text = format!("only {came} bytes came in {seconds} seconds");
                        Err(Failed::Slow(error(&text).retryable()))
                    }
                    _ => Ok(chunk),
                }
            }
            Waited::Done(Err(cause)) => Err(Failed::Again(
                error("the connection broke")
                    .caused_by(cause.without_url())
                    .retryable(),
            )),
            Waited::Stalled => Err(self.stalled(error)),
            Waited::Stopped => Err(Failed::Stopped),
        }
    }

    /// Reads a body of at most `limit` bytes.
    pub(super) fn body(
        &self,
        mut response: Response,
        limit: usize,
        error: impl Fn(&str) -> Error,
    ) -> Result<Vec<u8>, Failed> {
        let mut bytes = Vec::new();
        let mut pace = Pace::default();
        while let Some(chunk) = self.chunk(&mut response, &mut pace, &error)? {
            if bytes.len() + chunk.len() > limit {
                let text = format!("the answer is longer than {limit} bytes");
                return Err(Failed::Final(error(&text)));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    fn stalled(&self, error: impl Fn(&str) -> Error) -> Failed {
        let seconds = self.retry.stall.as_secs_f32();
        let text = format!("not a byte came for {seconds} seconds");
        Failed::Again(error(&text).retryable())
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> Waited<T> {
        let watched = watched(&self.control, self.retry.stall, future);
        self.runtime.block_on(watched)
    }

    /// Repeats `attempt` while it fails in a way that may pass.
    pub(super) fn persist<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, Failed>,
    ) -> Result<T, Error> {
        let mut attempts = 0;
        loop {
            let error = match attempt() {
                Ok(done) => return Ok(done),
                Err(Failed::Final(error)) => return Err(error),
                Err(Failed::Stopped) => return Err(stopped(Stopped)),
                Err(Failed::Again(error) | Failed::Slow(error)) => error,
            };
            attempts += 1;
            if attempts >= self.retry.attempts {
                return Err(error);
            }
            tracing::warn!(attempt = attempts, err = error.chain(), "trying again");
            self.control.sleep(self.retry.delay).map_err(stopped)?;
        }
    }
}

/// The error of a request that nobody waits for any more.
pub(super) fn stopped(_: Stopped) -> Error {
    Error::cancelled(Stage::Fetch)
}

/// Whether a certificate was refused, which no other attempt changes.
fn is_distrust(error: &reqwest::Error) -> bool {
    let refused = |tls: &rustls::Error| matches!(tls, rustls::Error::InvalidCertificate(_));
    cause::<rustls::Error>(error).is_some_and(refused)
}

/// Whether the other side speaks another protocol, now and later.
fn speaks_otherwise(error: &reqwest::Error) -> bool {
    let no_tls = |tls: &rustls::Error| {
        matches!(
            tls,
            rustls::Error::InvalidMessage(_) | rustls::Error::PeerIncompatible(_)
        )
    };
    cause::<rustls::Error>(error).is_some_and(no_tls)
        || cause::<hyper::Error>(error).is_some_and(hyper::Error::is_parse)
}

/// The first cause of the kind `E`.
fn cause<E: StdError + 'static>(error: &reqwest::Error) -> Option<&E> {
    let mut next = error.source();
    while let Some(cause) = next {
        let mut inner: Option<&(dyn StdError + 'static)> = Some(cause);
        // What an io::Error holds is not among its sources.
        while let Some(io) = inner.and_then(|inner| inner.downcast_ref::<io::Error>()) {
            inner = io.get_ref().map(|held| held as &(dyn StdError + 'static));
        }
        if let Some(found) = inner.and_then(|inner| inner.downcast_ref::<E>()) {
            return Some(found);
        }
        next = cause.source();
    }
    None
}

/// Why a redirect is not followed.
#[derive(Debug)]
enum Refused {
    TooMany,
    Downgrade,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(f, "there are more than {REDIRECTS} redirects in a row"),
            Self::Downgrade => f.write_str("it leads from https to http, which is not encrypted"),
        }
    }
}

impl std::error::Error for Refused {}

fn redirected(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let was_secure = |url: &Url| url.scheme() == "https";
    if attempt.previous().len() > REDIRECTS {
        attempt.error(Refused::TooMany)
    } else if attempt.previous().last().is_some_and(was_secure) && attempt.url().scheme() == "http"
    {
        attempt.error(Refused::Downgrade)
    } else {
        attempt.follow()
    }
}

/// How waiting for the network ended.
enum Waited<T> {
    Done(T),
    Stalled,
    Stopped,
}

/// Waits for `future`, but not past a stall or a stop.
async fn watched<T>(
    control: &Control,
    stall: Duration,
    future: impl Future<Output = T>,
) -> Waited<T> {
    let mut future = std::pin::pin!(future);
    let start = Instant::now();
    loop {
        if control.running().is_err() {
            return Waited::Stopped;
        }
        match tokio::time::timeout(TICK, &mut future).await {
            Ok(done) => return Waited::Done(done),
            Err(_) if start.elapsed() >= stall => return Waited::Stalled,
            Err(_) => {}
        }
    }
}
