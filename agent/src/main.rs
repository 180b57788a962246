//! The agent binary.
fn main() {}
