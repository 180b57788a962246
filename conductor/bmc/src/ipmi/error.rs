//! How talking to a BMC by IPMI fails.

use std::io;

/// A failed call. Messages name the BMC, what was expected and found and,
/// where it helps, what to do. Passwords and keys never appear.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The node's `driver_info` does not describe an endpoint.
    #[error("driver_info {property}: {problem}")]
    Endpoint {
        /// The property.
        property: &'static str,
        /// Expected and found.
        problem: String,
    },
    /// The address has no host behind it, or the network refuses.
    #[error("cannot send to the BMC at {address}; check ipmi_address and ipmi_port")]
    Network {
        /// Address of the BMC.
        address: String,
        /// Cause.
        source: io::Error,
    },
    /// No answer.
    #[error(
        "{action}: the BMC at {address} does not answer after {attempts} attempts; check ipmi_address, ipmi_port (UDP) and that IPMI over LAN is switched on in the BMC"
    )]
    Unreachable {
        /// What was tried.
        action: &'static str,
        /// Address of the BMC.
        address: String,
        /// How often it was tried.
        attempts: u32,
    },
    /// The BMC does not let us in, or does not prove that it knows the
    /// password.
    #[error("the BMC at {address} and user {user:?}: {problem}")]
    Auth {
        /// Address of the BMC.
        address: String,
        /// User name, empty for the anonymous user.
        user: String,
        /// What went wrong and what to do.
        problem: String,
    },
    /// None of our cipher suites is the BMC's.
    #[error(
        "the BMC at {address} takes none of the cipher suites {tried}; enable suite 17 or 3 in the BMC, or set ipmi_cipher_suite"
    )]
    NoSuite {
        /// Address of the BMC.
        address: String,
        /// Numbers of the suites.
        tried: String,
    },
    /// A command came back with another completion code than 0.
    #[error("{command}: the BMC at {address} answered completion code {code:#04x} ({meaning})")]
    Refused {
        /// The command.
        command: &'static str,
        /// Address of the BMC.
        address: String,
        /// The code.
        code: u8,
        /// What it means.
        meaning: &'static str,
    },
    /// An answer that is shorter than the specification says.
    #[error("{command}: the BMC at {address} answered {found} bytes, expected at least {expected}")]
    Short {
        /// The command.
        command: &'static str,
        /// Address of the BMC.
        address: String,
        /// Bytes that should be there.
        expected: usize,
        /// Bytes that were there.
        found: usize,
    },
    /// The BMC cannot do it.
    #[error("the BMC at {address} cannot {wanted} by IPMI; it can {offered}")]
    Unsupported {
        /// Address of the BMC.
        address: String,
        /// What was wanted.
        wanted: String,
        /// What is possible.
        offered: &'static str,
    },
    /// A state did not come about.
    #[error(
        "{what} of the machine behind {address} is {found} {seconds} s after {expected} was requested"
    )]
    NotReached {
        /// What.
        what: &'static str,
        /// Address of the BMC.
        address: String,
        /// The target.
        expected: String,
        /// What it is.
        found: String,
        /// Seconds waited.
        seconds: u64,
    },
}

impl Error {
    /// Whether the same call may well succeed a little later, without anyone
    /// changing anything.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Network { .. } | Self::NotReached { .. } => true,
            // Node busy, timeout, out of resources (§5.2).
            Self::Refused { code, .. } => matches!(*code, 0xC0 | 0xC3 | 0xC4 | 0xCE),
            _ => false,
        }
    }

    /// Whether the node's settings are at fault rather than the BMC.
    pub const fn is_configuration(&self) -> bool {
        matches!(self, Self::Endpoint { .. })
    }
}

/// Completion codes (§5.2, table 5-2).
pub(super) const fn meaning(code: u8) -> &'static str {
    match code {
        0xC0 => "node busy",
        0xC1 => "invalid command",
        0xC2 => "command invalid for this LUN",
        0xC3 => "timeout in the BMC",
        0xC4 => "out of space",
        0xC5 => "reservation cancelled",
        0xC6 => "request data truncated",
        0xC7 => "request data length invalid",
        0xC8 => "request data field too long",
        0xC9 => "parameter out of range",
        0xCA => "cannot return the requested number of bytes",
        0xCB => "requested thing not present",
        0xCC => "invalid data field",
        0xCD => "command illegal for this sensor or record",
        0xCE => "response could not be provided",
        0xCF => "duplicated request",
        0xD0 => "SDR repository in update mode",
        0xD1 => "device in firmware update mode",
        0xD2 => "BMC initialisation in progress",
        0xD3 => "destination unavailable",
        0xD4 => "insufficient privilege: raise ipmi_priv_level or the user's rights",
        0xD5 => "not supported in the present state",
        0xD6 => "sub-function disabled or unavailable",
        0xFF => "unspecified error",
        0x80..=0xBE => "command-specific error",
        _ => "unknown code",
    }
}
