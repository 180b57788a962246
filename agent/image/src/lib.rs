//! The data path: source, verify, decode, sink.
