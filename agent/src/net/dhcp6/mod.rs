//! A DHCPv6 client (RFC 8415) for one address or for other things alone: a
//! state machine without clock or sockets ([`machine`]), and the loop that joins
//! it with both ([`client`]).

pub mod client;
mod machine;

pub use client::Client;
pub use client::Event;
pub use machine::Lease;
pub use machine::Machine;
pub use machine::Output;
pub use machine::Wanted;
