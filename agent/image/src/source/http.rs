//! One place of an image on an HTTP or HTTPS server.
//!
//! The body is read once from the start; a broken connection is taken up
//! with `Range` and `If-Range` where it stopped. A server without ranges
//! sends everything again and the known part is skipped: the running digest
//! covers the old beginning and the new rest, so a change is found out.

use std::sync::Arc;

use bytes::Buf;
use bytes::Bytes;
use reqwest::RequestBuilder;
use reqwest::Response;
use reqwest::StatusCode;
use reqwest::Url;
use reqwest::header;

use super::Failed;
use super::Place;
use super::client::Http;
use super::pace::Pace;
use super::range::ContentRange;
use super::registry::Session;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::redact;
use crate::request::BasicAuth;
use crate::request::HttpOptions;
use crate::request::Secret;

/// What a server is shown.
pub(super) enum Credentials {
    /// Nothing but what the URL itself holds.
    None,
    Basic(BasicAuth),
    Header(Secret),
    /// What a registry asks for.
    Registry(Session),
}

impl Credentials {
    fn of(options: &HttpOptions) -> Self {
        match (&options.authorization, &options.basic_auth) {
            (Some(value), _) => Self::Header(value.clone()),
            (None, Some(auth)) => Self::Basic(auth.clone()),
            (None, None) => Self::None,
        }
    }

    /// Adds them to a request; redirects to other hosts lose them again.
    fn add(&self, request: RequestBuilder) -> RequestBuilder {
        match self {
            Self::None => request,
            Self::Basic(auth) => request.basic_auth(&auth.user, Some(auth.password.expose())),
            Self::Header(value) => request.header(header::AUTHORIZATION, value.expose()),
            Self::Registry(session) => session.add(request),
        }
    }
}

pub(super) struct HttpPlace {
    http: Arc<Http>,
    url: Url,
    name: String,
    credentials: Credentials,
    /// Offset of the next byte to hand out.
    position: u64,
    /// Where the caller stops reading.
    end: Option<u64>,
    length: Option<u64>,
    validator: Option<Validator>,
    body: Option<Body>,
}

/// What the first answer said of the version of its bytes.
struct Validator {
    /// Strong ETag, or a date.
    text: String,
    /// Who said it, after redirects: mirrors differ in their tags.
    host: Option<String>,
}

/// An answer that is being read.
struct Body {
    response: Response,
    pending: Bytes,
    pace: Pace,
    /// Bytes to drop first: the server does not do ranges.
    skip: u64,
    /// Where a partial answer stops; `None` for one to the image's end.
    stop: Option<u64>,
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

impl HttpPlace {
    pub(super) fn new(http: Arc<Http>, url: &str, options: &HttpOptions) -> Result<Self, Error> {
        let name = redact::url(url);
        let url = Url::parse(url).map_err(|error| {
            let text = format!("use the URL {name}");
            Error::new(ErrorKind::Request, Stage::Check, text).caused_by(error)
        })?;
        Ok(Self::with(http, url, name, Credentials::of(options)))
    }

    pub(super) fn with(http: Arc<Http>, url: Url, name: String, credentials: Credentials) -> Self {
        Self {
            http,
            url,
            name,
            credentials,
            position: 0,
            end: None,
            length: None,
            validator: None,
            body: None,
        }
    }

    fn error(&self, text: impl std::fmt::Display) -> Error {
        let text = format!("GET {}: {text}", self.name);
        Error::new(ErrorKind::Source, Stage::Fetch, text).at(self.position)
    }

    /// Asks for the bytes from the current position.
    fn request(&mut self) -> Result<(), Failed> {
        let response = self.send()?;
        let Credentials::Registry(session) = &mut self.credentials else {
            return self.accept(response);
        };
        if response.status() != StatusCode::UNAUTHORIZED {
            return self.accept(response);
        }
        // A token is good for some minutes only; the image may take longer.
        session.renew(&response)?;
        let response = self.send()?;
        self.accept(response)
    }

    fn send(&self) -> Result<Response, Failed> {
        let mut request = self.credentials.add(self.http.get(&self.url));
        if self.position > 0 {
            let end = self.end.filter(|end| *end > self.position);
            let range = match end {
                Some(end) => format!("bytes={}-{}", self.position, end - 1),
                None => format!("bytes={}-", self.position),
            };
            request = request.header(header::RANGE, range);
            if let Some(validator) = &self.validator {
                request = request.header(header::IF_RANGE, &validator.text);
            }
        }
        self.http.send(request, |text| self.error(text))
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
        let (skip, stop, total) = match status {
            StatusCode::OK => (self.position, None, announced),
            StatusCode::PARTIAL_CONTENT => {
                let range = text(header::CONTENT_RANGE).and_then(ContentRange::parse);
                match range {
                    Some(range) if range.first == self.position => {
                        (0, Some(range.last + 1), range.total)
                    }
                    _ => {
                        let text = "the answer holds other bytes than were asked for";
                        return Err(Failed::Final(self.error(text)));
                    }
                }
            }
            _ => return Err(self.refused(status, response.url())),
        };
        let validator = text(header::ETAG)
            .filter(|tag| !tag.starts_with("W/"))
            .or_else(|| text(header::LAST_MODIFIED))
            .map(|text| Validator {
                text: text.to_owned(),
                host: response.url().host_str().map(str::to_owned),
            });
        self.same_image(total, validator)?;
        self.body = Some(Body {
            response,
            pending: Bytes::new(),
            pace: Pace::default(),
            skip,
            stop,
        });
        Ok(())
    }

    /// The failure that a status means; `from` is where redirects led to.
    fn refused(&self, status: StatusCode, from: &Url) -> Failed {
        let advice = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                ": it wants credentials, or other ones (--user, --bearer)"
            }
            StatusCode::RANGE_NOT_SATISFIABLE => {
                ": the image became shorter while it was read, or is another one there"
            }
            _ => "",
        };
        let place = if *from == self.url {
            "the server".to_owned()
        } else {
            format!("{}, where the server led to,", redact::url(from.as_str()))
        };
        let error = self.error(format_args!("{place} answered {status}{advice}"));
        let passing = status.is_server_error()
            || status == StatusCode::REQUEST_TIMEOUT
            || status == StatusCode::TOO_MANY_REQUESTS;
        if passing {
            Failed::Again(error.retryable())
        } else {
            Failed::Final(error)
        }
    }

    /// Refuses an answer that is not of the image that was read so far.
    fn same_image(
        &mut self,
        total: Option<u64>,
        validator: Option<Validator>,
    ) -> Result<(), Failed> {
        match (self.length, total) {
            (Some(known), Some(total)) if known != total => {
                return Err(Failed::Final(self.error(format_args!(
                    "the image changed while it was read, or is another one there: it had {known} \
                     bytes, now {total}"
                ))));
            }
            (None, Some(total)) => self.length = Some(total),
            _ => {}
        }
        match (&self.validator, validator) {
            (Some(known), Some(now)) if known.host == now.host && known.text != now.text => {
                let text = "the image changed while it was read: its ETag or date differs";
                return Err(Failed::Final(self.error(text)));
            }
            (_, Some(now)) => self.validator = Some(now),
            (_, None) => {}
        }
        Ok(())
    }

    /// Takes bytes of the current answer; 0 when all of it was taken.
    fn take(&mut self, buf: &mut [u8]) -> Result<usize, Failed> {
        let Some(mut body) = self.body.take() else {
            return Ok(0);
        };
        while body.pending.is_empty() {
            let chunk = self
                .http
                .chunk(&mut body.response, &mut body.pace, |text| self.error(text))?;
            match chunk {
                Some(bytes) => body.pending = bytes,
                None => return self.end_of_body(&body),
            }
            body.drop_known();
        }
        let count = body.pending.len().min(buf.len());
        buf[..count].copy_from_slice(&body.pending.split_to(count));
        self.body = Some(body);
        Ok(count)
    }

    /// All announced bytes were read; the body must be at its end too.
    fn nothing_more(&mut self) -> Result<usize, Failed> {
        let Some(mut body) = self.body.take() else {
            return Ok(0);
        };
        let rest = if body.pending.is_empty() {
            self.http
                .chunk(&mut body.response, &mut body.pace, |text| self.error(text))
        } else {
            Ok(Some(body.pending))
        };
        match rest {
            Ok(Some(_)) => {
                let text = "the body is longer than was announced";
                Err(Failed::Final(self.error(text)))
            }
            Err(Failed::Stopped) => Err(Failed::Stopped),
            // What breaks now is behind the image.
            Ok(None) | Err(_) => Ok(0),
        }
    }

    /// The body ended: rightly, or too early.
    fn end_of_body(&mut self, body: &Body) -> Result<usize, Failed> {
        let early = |text: String| Err(Failed::Again(self.error(text).retryable()));
        match (self.length, body.stop) {
            (_, Some(stop)) if self.position < stop => {
                early(format!("the part ended early, it was to reach byte {stop}"))
            }
            // A server may answer with less than was asked for.
            (Some(_), Some(_)) => Ok(0),
            (Some(length), None) if self.position < length => early(format!(
                "the body ended early, {length} bytes were announced"
            )),
            (None, _) if body.skip > 0 => {
                early("the body is shorter than it was before".to_owned())
            }
            _ => {
                self.length = Some(self.position);
                Ok(0)
            }
        }
    }
}

impl Place for HttpPlace {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, Failed> {
        loop {
            let left = self
                .length
                .map(|length| length.saturating_sub(self.position));
            if left == Some(0) {
                return self.nothing_more();
            }
            self.connect()?;
            let most = left.and_then(|left| usize::try_from(left).ok());
            let room = most.unwrap_or(usize::MAX).min(buf.len());
            let count = self.take(&mut buf[..room])?;
            self.position += count as u64;
            if count > 0 {
                return Ok(count);
            }
        }
    }

    fn connect(&mut self) -> Result<(), Failed> {
        match self.body {
            Some(_) => Ok(()),
            None => self.request(),
        }
    }

    fn seek(&mut self, position: u64, end: Option<u64>) {
        let wider = self
            .end
            .is_some_and(|have| end.is_none_or(|end| end > have));
        match &mut self.body {
            // Without ranges, going on is cheaper than starting over.
            Some(body) if body.stop.is_none() && position >= self.position => {
                body.skip += position - self.position;
                body.drop_known();
            }
            Some(_) if position == self.position && !wider => {}
            _ => self.body = None,
        }
        self.position = position;
        self.end = end;
    }

    fn expect(&mut self, length: u64) {
        self.length = Some(length);
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn name(&self) -> &str {
        &self.name
    }
}
