//! Several places of one image as one source.
//!
//! An attempt that fails goes on at the next place at once; a pause comes
//! after a round without much new. A place that can never answer falls out.

use std::sync::Arc;

use super::Failed;
use super::Place;
use super::Source;
use super::client::stopped;
use crate::control::Control;
use crate::control::Stopped;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::request::Retry;

/// Bytes since the last failure after which one place is asked again at once: a
/// server that drops connections after each little piece is not to be run
/// against without a pause.
const MUCH: u64 = 1 << 20;

pub(super) struct Mirrors {
    /// Never empty.
    places: Vec<Box<dyn Place>>,
    current: usize,
    /// Why places fell out.
    lost: Vec<Error>,
    control: Arc<Control>,
    retry: Retry,
    /// Offset of the next byte to hand out.
    position: u64,
    /// Where the caller stops reading.
    end: Option<u64>,
    length: Option<u64>,
    /// Attempts in a row without a new byte.
    attempts: u32,
    /// Attempts that brought bytes too slowly; new bytes do not make up for
    /// them.
    slow: u32,
    /// Bytes that came since the last failure.
    fresh: u64,
}

impl Mirrors {
    pub(super) fn new(
        places: Vec<Box<dyn Place>>,
        lost: Vec<Error>,
        retry: Retry,
        control: Arc<Control>,
    ) -> Self {
        Self {
            places,
            current: 0,
            lost,
            control,
            retry,
            position: 0,
            end: None,
            length: None,
            attempts: 0,
            slow: 0,
            fresh: 0,
        }
    }

    /// Gets the first answer's headers, so that a missing image is known.
    pub(super) fn connect(&mut self) -> Result<(), Error> {
        while let Err(failed) = self.places[self.current].connect() {
            self.fail_over(failed)?;
        }
        self.length = self.places[self.current].length();
        Ok(())
    }

    /// Goes to the next place, or waits, or gives up.
    fn fail_over(&mut self, failed: Failed) -> Result<(), Error> {
        let name = self.name().to_owned();
        let is_slow = matches!(failed, Failed::Slow(_));
        match failed {
            Failed::Stopped => return Err(stopped(Stopped)),
            Failed::Final(error) => {
                self.lost.push(error);
                if self.places.len() == 1 {
                    return Err(none_left(std::mem::take(&mut self.lost)));
                }
                self.places.remove(self.current);
                tracing::warn!(
                    source = name,
                    position = self.position,
                    err = self.lost.last().map(Error::chain),
                    "source failed"
                );
            }
            Failed::Again(error) | Failed::Slow(error) => {
                self.attempts += 1;
                self.slow += u32::from(is_slow);
                let count = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
                let tries = self.attempts.max(self.slow);
                if tries >= self.retry.attempts.saturating_mul(count) {
                    let text = format!(
                        "gave up on {name} after {tries} attempts {}",
                        if is_slow {
                            "that were too slow"
                        } else {
                            "without a new byte"
                        }
                    );
                    return Err(Error::new(ErrorKind::Source, Stage::Fetch, text)
                        .at(self.position)
                        .caused_by(error)
                        .retryable());
                }
                tracing::warn!(
                    source = name,
                    position = self.position,
                    attempt = self.attempts,
                    err = error.chain(),
                    "source interrupted"
                );
                if self.attempts.is_multiple_of(count) && self.fresh < MUCH {
                    self.control.sleep(self.retry.delay).map_err(stopped)?;
                }
                self.current += 1;
            }
        }
        self.fresh = 0;
        self.current %= self.places.len();
        let place = &mut self.places[self.current];
        place.seek(self.position, self.end);
        if let Some(length) = self.length {
            place.expect(length);
        }
        Ok(())
    }
}

/// What to say when no place is left: the reason of the only one, or all.
pub(crate) fn none_left(mut lost: Vec<Error>) -> Error {
    match lost.len() {
        0 => Error::new(
            ErrorKind::Request,
            Stage::Check,
            "no image source was given",
        ),
        1 => lost.remove(0),
        count => {
            let reasons: Vec<String> = lost.iter().map(Error::chain).collect();
            let text = format!(
                "none of the {count} sources of the image can be used: {}",
                reasons.join("; ")
            );
            Error::new(lost[0].kind(), lost[0].stage(), text)
        }
    }
}

impl Source for Mirrors {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, Error> {
        loop {
            let place = &mut self.places[self.current];
            match place.read(buf) {
                Ok(count) => {
                    if count > 0 {
                        self.attempts = 0;
                    }
                    self.position += count as u64;
                    self.fresh += count as u64;
                    self.length = place.length().or(self.length);
                    return Ok(count);
                }
                Err(failed) => self.fail_over(failed)?,
            }
        }
    }

    fn seek(&mut self, position: u64, end: Option<u64>) {
        self.position = position;
        self.end = end;
        self.attempts = 0;
        self.places[self.current].seek(position, end);
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn name(&self) -> &str {
        self.places[self.current].name()
    }
}
