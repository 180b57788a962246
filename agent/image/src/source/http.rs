//! An image on an HTTP or HTTPS server.
//!
//! The body is read once from the start; a broken connection is taken up
//! with `Range` and `If-Range` where it stopped. A server without ranges
//! sends everything again and the known part is skipped: the running digest
//! covers the old beginning and the new rest, so a change is found out.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use bytes::Buf;
use bytes::Bytes;
use reqwest::Client;
use reqwest::NoProxy;
use reqwest::Proxy;
use reqwest::Response;
use reqwest::StatusCode;
use reqwest::header;
use tokio::runtime::Runtime;

use super::Source;
use super::range::ContentRange;
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

pub(super) struct HttpSource {
    runtime: Runtime,
    client: Client,
    url: String,
    name: String,
    options: HttpOptions,
    retry: Retry,
    control: Arc<Control>,
    /// Offset of the next byte to hand out.
    position: u64,
    /// Where the caller stops reading.
    end: Option<u64>,
    length: Option<u64>,
    /// Strong validator of the first answer.
    validator: Option<String>,
    body: Option<Body>,
    /// Attempts in a row without a new byte.
    attempts: u32,
}

/// An answer that is being read.
struct Body {
    response: Response,
    pending: Bytes,
    /// Bytes to drop first: the server does not do ranges.
    skip: u64,
    /// The answer runs to the end of the image.
    whole: bool,
}

impl Body {
    /// Drops what is to be skipped, as far as it is here.
    fn drop_known(&mut self) {
        let known = usize::try_from(self.skip)
            .unwrap_or(usize::MAX)
            .min(self.pending.len());
        self.pending.advance(known);
        self.skip -= known as u64;
    }
}

/// Why an attempt ended.
enum Failed {
    /// Another attempt may do better.
    Again(Error),
    /// It will not.
    Final(Error),
}

impl HttpSource {
    pub(super) fn new(
        url: &str,
        options: &HttpOptions,
        retry: Retry,
        control: Arc<Control>,
    ) -> Result<Self, Error> {
        let fail = |text: String| Error::new(ErrorKind::Request, Stage::Check, text);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| fail("start the HTTP client".to_owned()).caused_by(error))?;
        let name = redact::url(url);
        reqwest::Url::parse(url)
            .map_err(|error| fail(format!("use the URL {name}")).caused_by(error))?;
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls::config(options)?)
            .redirect(reqwest::redirect::Policy::limited(REDIRECTS))
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
        for (address, proxy) in proxies.into_iter().flatten() {
            let proxy = proxy.map_err(|error| {
                fail(format!("use the proxy {}", redact::url(address)))
                    .caused_by(error.without_url())
            })?;
            let direct = options.no_proxy.as_deref().and_then(NoProxy::from_string);
            builder = builder.proxy(proxy.no_proxy(direct));
        }
        let client = builder.build().map_err(|error| {
            fail(format!("set up the HTTP client for {name}")).caused_by(error.without_url())
        })?;
        Ok(Self {
            runtime,
            client,
            url: url.to_owned(),
            name,
            options: options.clone(),
            retry,
            control,
            position: 0,
            end: None,
            length: None,
            validator: None,
            body: None,
            attempts: 0,
        })
    }

    /// Gets the first answer's headers, so that a missing image is known.
    pub(super) fn connect(&mut self) -> Result<(), Error> {
        while self.body.is_none() {
            if let Err(failed) = self.request() {
                self.pause(failed)?;
            }
        }
        Ok(())
    }

    fn error(&self, text: impl std::fmt::Display) -> Error {
        Error::new(
            ErrorKind::Source,
            Stage::Fetch,
            format!("GET {}: {text}", self.name),
        )
        .at(self.position)
    }

    /// Sends one request for the bytes from the current position.
    fn request(&mut self) -> Result<(), Failed> {
        let mut request = self.client.get(&self.url);
        if let Some(auth) = &self.options.basic_auth {
            request = request.basic_auth(&auth.user, Some(auth.password.expose()));
        }
        if let Some(value) = &self.options.authorization {
            request = request.header(header::AUTHORIZATION, value.expose());
        }
        if self.position > 0 {
            let end = self.end.filter(|end| *end > self.position);
            let range = match end {
                Some(end) => format!("bytes={}-{}", self.position, end - 1),
                None => format!("bytes={}-", self.position),
            };
            request = request.header(header::RANGE, range);
            if let Some(validator) = &self.validator {
                request = request.header(header::IF_RANGE, validator);
            }
        }
        self.control.connections.fetch_add(1, Ordering::Relaxed);
        let sent = self
            .runtime
            .block_on(watched(&self.control, self.retry.stall, request.send()));
        let response = match sent {
            Waited::Done(Ok(response)) => response,
            // A redirect in circles or to what is no HTTP stays one.
            Waited::Done(Err(error)) if error.is_redirect() || error.is_builder() => {
                let text = "the server's redirect cannot be followed";
                return Err(Failed::Final(
                    self.error(text).caused_by(error.without_url()),
                ));
            }
            Waited::Done(Err(error)) => {
                return Err(Failed::Again(
                    self.error("no answer")
                        .caused_by(error.without_url())
                        .retryable(),
                ));
            }
            Waited::Stalled => return Err(Failed::Again(self.stalled())),
            Waited::Stopped => return Err(Failed::Final(Error::cancelled(Stage::Fetch))),
        };
        self.accept(response)
    }

    fn stalled(&self) -> Error {
        let seconds = self.retry.stall.as_secs_f32();
        self.error(format_args!("not a byte came for {seconds} seconds"))
            .retryable()
    }

    /// Looks at status and headers.
    fn accept(&mut self, response: Response) -> Result<(), Failed> {
        let text = |name: header::HeaderName| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let status = response.status();
        let announced = text(header::CONTENT_LENGTH).and_then(|text| text.trim().parse().ok());
        let (skip, total) = match status {
            StatusCode::OK => (self.position, announced),
            StatusCode::PARTIAL_CONTENT => {
                let range = text(header::CONTENT_RANGE).and_then(ContentRange::parse);
                match range {
                    Some(range) if range.first == self.position => (0, range.total),
                    _ => {
                        let text = "the answer holds other bytes than were asked for";
                        return Err(Failed::Final(self.error(text)));
                    }
                }
            }
            _ => {
                let error = self.error(format_args!("the server answered {status}"));
                let passing = status.is_server_error()
                    || status == StatusCode::REQUEST_TIMEOUT
                    || status == StatusCode::TOO_MANY_REQUESTS;
                let failed = if passing {
                    Failed::Again
                } else {
                    Failed::Final
                };
                return Err(failed(if passing { error.retryable() } else { error }));
            }
        };
        let validator = text(header::ETAG)
            .filter(|tag| !tag.starts_with("W/"))
            .or_else(|| text(header::LAST_MODIFIED))
            .map(str::to_owned);
        match (self.length, total) {
            (Some(known), Some(total)) if known != total => {
                return Err(Failed::Final(self.error(format_args!(
                    "the image changed while it was read: it had {known} bytes, now {total}"
                ))));
            }
            (None, Some(total)) => self.length = Some(total),
            _ => {}
        }
        if self.validator.is_none() {
            self.validator = validator;
        } else if validator.is_some() && validator != self.validator {
            let text = "the image changed while it was read: its ETag or date differs";
            return Err(Failed::Final(self.error(text)));
        }
        let whole = status == StatusCode::OK;
        self.body = Some(Body {
            response,
            pending: Bytes::new(),
            skip,
            whole,
        });
        Ok(())
    }

    /// Waits before the next attempt, or gives up.
    fn pause(&mut self, failed: Failed) -> Result<(), Error> {
        self.body = None;
        let error = match failed {
            Failed::Final(error) => return Err(error),
            Failed::Again(error) => error,
        };
        self.attempts += 1;
        if self.attempts >= self.retry.attempts {
            let text = format!(
                "gave up on {} after {} attempts without a new byte",
                self.name, self.attempts
            );
            return Err(Error::new(ErrorKind::Source, Stage::Fetch, text)
                .at(self.position)
                .caused_by(error)
                .retryable());
        }
        tracing::warn!(
            source = self.name,
            position = self.position,
            attempt = self.attempts,
            err = error.chain(),
            "source interrupted"
        );
        let stopped = |Stopped| Error::cancelled(Stage::Fetch);
        self.control.sleep(self.retry.delay).map_err(stopped)
    }

    /// Takes bytes of the current answer.
    fn take(&mut self, buf: &mut [u8]) -> Result<usize, Failed> {
        let Some(body) = &mut self.body else {
            return Ok(0);
        };
        while body.pending.is_empty() {
            let next = self.runtime.block_on(watched(
                &self.control,
                self.retry.stall,
                body.response.chunk(),
            ));
            match next {
                Waited::Done(Ok(Some(bytes))) => body.pending = bytes,
                Waited::Done(Ok(None)) => return self.end_of_body(),
                Waited::Done(Err(error)) => {
                    let error = error.without_url();
                    let text = "the connection broke";
                    return Err(Failed::Again(self.error(text).caused_by(error).retryable()));
                }
                Waited::Stalled => return Err(Failed::Again(self.stalled())),
                Waited::Stopped => return Err(Failed::Final(Error::cancelled(Stage::Fetch))),
            }
            body.drop_known();
        }
        let count = body.pending.len().min(buf.len());
        buf[..count].copy_from_slice(&body.pending.split_to(count));
        Ok(count)
    }

    /// The body ended: rightly, or too early.
    fn end_of_body(&mut self) -> Result<usize, Failed> {
        let skip = self.body.take().map_or(0, |body| body.skip);
        match self.length {
            Some(length) if self.position < length => Err(Failed::Again(
                self.error(format_args!(
                    "the body ended early, {length} bytes were announced"
                ))
                .retryable(),
            )),
            None if skip > 0 => Err(Failed::Again(
                self.error("the body is shorter than it was before")
                    .retryable(),
            )),
            _ => {
                self.length = Some(self.position);
                Ok(0)
            }
        }
    }
}

impl Source for HttpSource {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, Error> {
        loop {
            if self.length.is_some_and(|length| self.position >= length) {
                return Ok(0);
            }
            let result = if self.body.is_none() {
                self.request().map(|()| None)
            } else {
                self.take(buf).map(Some)
            };
            match result {
                Ok(None) => {}
                // The end is seen at the top.
                Ok(Some(0)) if self.length != Some(self.position) => {}
                Ok(Some(count)) => {
                    self.position += count as u64;
                    self.attempts = 0;
                    if self.length.is_some_and(|length| self.position > length) {
                        return Err(self.error("the body is longer than was announced"));
                    }
                    return Ok(count);
                }
                Err(failed) => self.pause(failed)?,
            }
        }
    }

    fn seek(&mut self, position: u64, end: Option<u64>) {
        let wider = self
            .end
            .is_some_and(|have| end.is_none_or(|end| end > have));
        match &mut self.body {
            // Without ranges, going on is cheaper than starting over.
            Some(body) if body.whole && position >= self.position => {
                body.skip += position - self.position;
                body.drop_known();
            }
            Some(_) if position == self.position && !wider => {}
            _ => self.body = None,
        }
        self.position = position;
        self.end = end;
        self.attempts = 0;
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn name(&self) -> &str {
        &self.name
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
