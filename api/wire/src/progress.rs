//! How far a long operation has come.

use serde::Deserialize;
use serde::Serialize;

/// A snapshot of a long operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Progress {
    /// What is being done, such as `write` or `erase`.
    pub stage: String,
    /// Bytes read from the source so far.
    pub bytes_in: u64,
    /// Bytes that the source will give, when known.
    pub bytes_total: Option<u64>,
    /// Bytes put in place on the target so far, zeroes included.
    pub bytes_out: u64,
    /// Bytes read per second, over the last few seconds.
    pub rate: u64,
    /// 0 to 100, when the total is known.
    pub percent: Option<u8>,
    /// Seconds that are left at this rate, when both are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta: Option<u64>,
}
