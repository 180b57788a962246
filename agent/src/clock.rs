//! The clock of a machine whose own may be wrong.
//!
//! Certificates are checked against the clock, and a machine with an empty
//! battery starts in the past. So before the first checked connection the API
//! is asked for its `Date` over a connection that is *not* checked. What such
//! an answer may do is bounded:
//!
//! - It may move the clock forward, by any amount up to [`LATEST`]. Moving
//!   forward makes certificates expire, which at worst stops this agent; it
//!   never makes an expired certificate valid again.
//! - It may move the clock back only when the clock is past [`LATEST`], where
//!   no date can be right, and never before [`EARLIEST`].
//!
//! Nothing else of that answer is used, and no secret is sent with it. An NTP
//! server (`ipa-ntp-server`) is believed as much and no more.

mod ntp;

use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use nix::sys::time::TimeSpec;
use nix::time::ClockId;
use tracing::info;
use tracing::warn;

use crate::api::ApiError;
use crate::command::CommandFailure;
use crate::params::Params;
use crate::params::Trust;
use crate::tls::client_config;

/// No clock can be right before this program was written: 2026-11-30.
pub const EARLIEST: Duration = Duration::from_secs(1_796_000_000);
/// No clock is taken to be right twenty years later.
pub const LATEST: Duration = Duration::from_secs(EARLIEST.as_secs() + 20 * 365 * 86400);
/// Differences below this are left alone.
const TOLERANCE: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where the clock should go, if it should move: both are times since 1970.
pub fn correction(now: Duration, server: Duration) -> Option<Duration> {
    if !(EARLIEST..=LATEST).contains(&server) {
        return None;
    }
    let behind = server > now + TOLERANCE;
    let absurd = now > LATEST;
    (behind || absurd).then_some(server)
}

/// Asks the NTP server that is named, else the API for the date, and sets the
/// clock if [`correction`] says so. Trouble is only logged: the checked
/// connection that follows has the last word. Only PID 1 may set the clock of
/// its machine.
pub async fn set(params: &Params) {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let mut server = None;
    if let Some(name) = params.get("ipa-ntp-server").filter(|name| !name.is_empty()) {
        match ntp::ask(name).await {
            Ok(time) => server = Some(time),
            Err(error) => warn!("clock: NTP server {name}: {error}"),
        }
    }
    let urls = params.api_urls.iter().filter(|_| server.is_none());
    for url in urls {
        match ask(url).await {
            Ok(Some(date)) => {
                server = Some(date);
                break;
            }
            Ok(None) => warn!("clock: {url} sends no date"),
            Err(error) => warn!("clock: {}", CommandFailure::chain(&error)),
        }
    }
    let Some(server) = server else {
        if now < EARLIEST {
            warn!("clock: it is wrong and nobody gives the date: certificates may be refused");
        }
        return;
    };
    let Some(target) = correction(now, server) else {
        return;
    };
    let seconds = i64::try_from(target.as_secs()).unwrap_or(i64::MAX);
    match ClockId::CLOCK_REALTIME.set_time(TimeSpec::new(seconds, 0)) {
        Ok(()) => info!(
            "clock: set, it was {} s off",
            target.abs_diff(now).as_secs()
        ),
        Err(error) => warn!("clock: cannot be set: {error}"),
    }
}

async fn ask(url: &str) -> Result<Option<Duration>, ApiError> {
    let http = crate::api::builder(client_config(&Trust::Insecure)?)
        .timeout(TIMEOUT)
        .build()
        .map_err(ApiError::Setup)?;
    let response = http
        .head(url)
        .send()
        .await
        .map_err(|error| ApiError::Connect {
            method: reqwest::Method::HEAD,
            url: url.to_owned(),
            source: error.without_url(),
        })?;
    let date = response
        .headers()
        .get("date")
        .and_then(|date| date.to_str().ok());
    Ok(date.and_then(parse_date))
}

/// An HTTP date as the time since 1970.
fn parse_date(text: &str) -> Option<Duration> {
    let timestamp = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    u64::try_from(timestamp.as_second())
        .ok()
        .map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::EARLIEST;
    use super::LATEST;
    use super::correction;
    use super::parse_date;

    const DAY: Duration = Duration::from_secs(86400);

    #[test]
    fn moves_forward_only() {
        let now = EARLIEST + 10 * DAY;
        assert_eq!(correction(Duration::ZERO, now), Some(now), "no battery");
        assert_eq!(correction(now, now + DAY), Some(now + DAY));
        assert_eq!(
            correction(now, now + Duration::from_secs(30)),
            None,
            "close enough"
        );
        assert_eq!(correction(now, now - DAY), None, "never back");
        assert_eq!(
            correction(LATEST + DAY, now),
            Some(now),
            "an absurd clock may go back"
        );
        assert_eq!(
            correction(Duration::ZERO, EARLIEST - DAY),
            None,
            "an absurd server"
        );
        assert_eq!(correction(now, LATEST + DAY), None, "an absurd server");
    }

    #[test]
    fn reads_http_dates() {
        let date = parse_date("Mon, 30 Nov 2026 17:02:43 GMT");
        assert_eq!(date, Some(Duration::from_secs(1_796_058_163)));
        assert_eq!(parse_date("yesterday"), None);
    }
}
