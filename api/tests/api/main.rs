//! The API as a client sees it, over a database in memory.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops at the first thing that is wrong"
)]

mod allocations;
mod behaviour;
mod beside;
mod coherence;
mod golden;
mod hardware;
mod inspection;
mod openapi;
mod resources;
mod serve;
mod support;
