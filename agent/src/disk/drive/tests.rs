//! Drives for tests.

pub(crate) mod double;
