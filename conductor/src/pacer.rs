//! Turns: at most so many a second, first come, first served. A short rush is
//! let through.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::Instant;

/// Hands out turns.
#[derive(Debug)]
pub(crate) struct Pacer {
    every: Duration,
    /// How far turns may have been saved up.
    rush: Duration,
    /// The moment of the next turn.
    next: Mutex<Instant>,
}

impl Pacer {
    /// `rate` turns a second, of which up to `rush` at once after a rest.
    pub(crate) fn new(rate: u32, rush: u32) -> Self {
        let every = Duration::from_secs(1) / rate.max(1);
        Self {
            every,
            rush: every * rush,
            next: Mutex::new(Instant::now()),
        }
    }

    /// Waits for a turn. One that is given up meanwhile is lost.
    pub(crate) async fn turn(&self) {
        let mine = self.reserve(Instant::now());
        tokio::time::sleep_until(mine).await;
    }

    fn reserve(&self, now: Instant) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let saved = now.checked_sub(self.rush).unwrap_or(now);
        let mine = (*next).max(saved);
        *next = mine + self.every;
        mine
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::Pacer;

    #[tokio::test]
    async fn turns_are_spread_after_a_rush() {
        let pacer = Pacer::new(10, 3);
        let start = Instant::now() + Duration::from_secs(60);
        let waits: Vec<Duration> = (0..6)
            .map(|_| pacer.reserve(start).saturating_duration_since(start))
            .collect();
        // Three that were saved up, the one that is due, then one by one.
        let expected = [0, 0, 0, 0, 100, 200].map(Duration::from_millis);
        assert_eq!(waits, expected);
        let later = start + Duration::from_secs(1);
        assert!(pacer.reserve(later) <= later);
    }
}
