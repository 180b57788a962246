//! A value that must never be printed.

use std::fmt;

use serde::Deserialize;
use serde::Serialize;

/// Wraps a token or password: `Debug` and `Display` show `******`, only
/// [`Secret::expose`] gives the value. It serialises as the plain value, since
/// it exists to travel between the two ends.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Secret(String);

/// What stands in place of a secret wherever it would be shown.
pub const MASK: &str = "******";

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself. Call this only where it leaves for its one reader.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn never_prints() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?}"), "****** ******");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"hunter2\"");
    }
}
