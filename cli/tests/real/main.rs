//! The real binary, as server and as client.

mod lifecycle;
mod serve;
mod server;
