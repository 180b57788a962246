//! Both ends together.

mod protocol;
mod routing;
mod secrets;
mod transport;
