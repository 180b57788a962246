//! A DHCPv4 client (RFC 2131): a state machine without clock or sockets
//! ([`machine`]), the frames it travels in ([`frame`]), a raw socket
//! ([`socket`]), and the loop that joins them ([`client`]).

pub mod client;
mod frame;
mod lease;
mod machine;
mod socket;

pub use client::Client;
pub use client::Event;
pub use client::Transport;
pub use lease::Lease;
pub use machine::Machine;
pub use machine::Output;
pub use machine::To;
pub use socket::RawTransport;
