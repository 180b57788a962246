//! The real binary, as server and as client.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod lifecycle;
mod serve;
mod server;
