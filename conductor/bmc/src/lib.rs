//! Talking to BMCs.
