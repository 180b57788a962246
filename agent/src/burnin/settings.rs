//! `agent_burnin_*` of `driver_info`. Numbers may be texts there, as command
//! lines send them.

use serde_json::Map;
use serde_json::Value;

use super::BurnInError;

/// A week; nobody waits longer.
const LONGEST: u64 = 7 * 86400;

/// The settings.
#[derive(Clone, Copy)]
pub(super) struct Settings<'a>(pub(super) &'a Map<String, Value>);

impl Settings<'_> {
    fn given(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// A whole number.
    pub(super) fn number(&self, key: &'static str, default: u64) -> Result<u64, BurnInError> {
        let Some(value) = self.given(key) else {
            return Ok(default);
        };
        let number = match value {
            Value::String(text) => text.trim().parse().ok(),
            value => value.as_u64(),
        };
        number.ok_or_else(|| BurnInError::Setting {
            key,
            expected: "a whole number from 0 on",
            found: value.clone(),
        })
    }

    /// A time in seconds, at most a week; 0 only where it has a meaning.
    pub(super) fn seconds(
        &self,
        key: &'static str,
        default: u64,
        zero: bool,
    ) -> Result<u64, BurnInError> {
        let seconds = self.number(key, default)?;
        if seconds > LONGEST || (seconds == 0 && !zero) {
            return Err(BurnInError::Setting {
                key,
                expected: "seconds, at most a week (604800)",
                found: seconds.into(),
            });
        }
        Ok(seconds)
    }

    /// A switch.
    pub(super) fn flag(&self, key: &'static str) -> Result<bool, BurnInError> {
        match self.given(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(value) => Err(BurnInError::Setting {
                key,
                expected: "true or false",
                found: value.clone(),
            }),
        }
    }

    /// A text of letters, digits and what sizes and file names have.
    pub(super) fn text(&self, key: &'static str) -> Result<Option<String>, BurnInError> {
        let Some(value) = self.given(key) else {
            return Ok(None);
        };
        let plain = |text: &&str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || "%./_-".contains(c);
            !text.is_empty() && !text.starts_with('-') && text.chars().all(fits)
        };
        match value.as_str().filter(plain) {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(BurnInError::Setting {
                key,
                expected: "a text of letters, digits, %, ., /, _ and -",
                found: value.clone(),
            }),
        }
    }

    /// An object, which a command line may have sent as its text.
    pub(super) fn object(
        &self,
        key: &'static str,
        expected: &'static str,
    ) -> Result<Map<String, Value>, BurnInError> {
        let found = self.given(key).cloned().unwrap_or_default();
        let parsed = match &found {
            Value::String(text) => serde_json::from_str(text).ok(),
            value => value.as_object().cloned(),
        };
        parsed.ok_or(BurnInError::Setting {
            key,
            expected,
            found,
        })
    }
}
