//! How fast a body comes: a server that sends a byte now and then never stalls,
//! and never ends.

use std::time::Duration;

/// Bytes a second of waiting that must come: a slow telephone line's, and a
/// thousandth of what an image is sent over.
const LEAST: u64 = 1 << 10;

/// Waiting for a body, and what came meanwhile. Time in which nobody asked for
/// bytes does not count.
#[derive(Debug, Default)]
pub(super) struct Pace {
    waited: Duration,
    bytes: u64,
}

impl Pace {
    /// Takes note of `bytes` that came after `waited`. The bytes of a whole
    /// `period` of waiting, when they are too few.
    pub(super) fn too_slow(
        &mut self,
        waited: Duration,
        bytes: u64,
        period: Duration,
    ) -> Option<u64> {
        self.waited += waited;
        self.bytes += bytes;
        if self.waited < period {
            return None;
        }
        let all = std::mem::take(self);
        (all.bytes < LEAST * all.waited.as_secs().max(1)).then_some(all.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drip_is_too_slow_and_a_thin_stream_is_not() {
        let (second, period) = (Duration::from_secs(1), Duration::from_secs(60));
        let mut pace = Pace::default();
        let drip = (0..60).find_map(|_| pace.too_slow(second, 1, period));
        assert_eq!(drip, Some(60));
        let thin = (0..600).find_map(|_| pace.too_slow(second, 1100, period));
        assert_eq!(thin, None);
    }
}
