//! The harness: machines, BMCs, networks, clients.
