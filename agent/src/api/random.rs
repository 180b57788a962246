//! Randomness for pauses. Not for keys.

use std::time::Duration;

/// Where random numbers come from; replaced in tests.
#[derive(Debug, Clone, Copy)]
pub struct Random(fn() -> u64);

impl Default for Random {
    /// The kernel's generator.
    fn default() -> Self {
        // Without it a pause is simply not random.
        Self(|| getrandom::u64().unwrap_or(u64::MAX / 2))
    }
}

impl Random {
    /// Numbers from a function, for tests.
    pub fn from_fn(function: fn() -> u64) -> Self {
        Self(function)
    }

    /// A number from 0 up to, but without, 1.
    pub fn fraction(self) -> f64 {
        // 53 bits fill an f64's mantissa exactly.
        ((self.0)() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A duration between two.
    pub fn between(self, low: Duration, high: Duration) -> Duration {
        let span = high.saturating_sub(low);
        low + span.mul_f64(self.fraction())
    }

    /// A whole number.
    pub fn u32(self) -> u32 {
        // Truncation is what is wanted here.
        ((self.0)() & u64::from(u32::MAX)) as u32
    }
}
