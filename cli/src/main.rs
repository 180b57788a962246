//! The server and operator binary.
fn main() {}
