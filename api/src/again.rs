//! Changes that were worked out from a version that is no longer the newest
//! are worked out again, so that no request undoes another.

use wrought_rpc::Error;
use wrought_rpc::Kind;

/// How often one request tries; each failure means that another came through.
const MOST: u32 = 20;

/// Counts the attempts of one request.
#[derive(Debug, Default)]
pub(crate) struct Attempts(u32);

impl Attempts {
    /// Whether to read again and try again after `error`.
    pub(crate) fn again(&mut self, error: &Error) -> bool {
        self.0 += 1;
        error.kind == Kind::Stale && self.0 < MOST
    }
}
