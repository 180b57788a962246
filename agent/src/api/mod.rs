//! The agent as a client of the API: lookup and heartbeats.

mod client;
mod heartbeat;
mod lookup;
mod random;

pub use client::ApiError;
pub use client::Client;
pub(crate) use client::builder;
pub use heartbeat::Beat;
pub use heartbeat::Heartbeats;
pub use lookup::LookupError;
pub use lookup::Lookups;
pub use random::Random;
