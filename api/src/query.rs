//! Query arguments, read strictly: an argument that is not known is refused,
//! so that a mistyped filter never lists everything.

use axum::extract::Query as Pairs;
use axum::http::Uri;
use uuid::Uuid;

use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;

/// A known argument and its first version, as the N of 1.N.
pub(crate) type Known = (&'static str, u16);

/// The arguments of a request.
#[derive(Debug)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Reads the arguments; every one must be in `known` (else 400) and not
    /// newer than the request's version (else 406).
    pub(crate) fn read(uri: &Uri, context: &Context, known: &[Known]) -> Result<Self> {
        let Pairs(pairs) = Pairs::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|_| ApiError::bad_request("The query string could not be decoded."))?;
        let is_known = |name: &str| known.iter().find(|(known, _)| *known == name);
        let mut unknown: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
        unknown.retain(|name| is_known(name).is_none());
        if !unknown.is_empty() {
            unknown.dedup();
            return Err(ApiError::bad_request(format!(
                "Unexpected arguments: {}",
                unknown.join(", ")
            )));
        }
        for (name, _) in &pairs {
            if let Some((name, since)) = is_known(name) {
                context.needs(&format!("The query argument {name}"), *since)?;
            }
        }
        Ok(Self { pairs })
    }

    /// The last value of an argument; an empty one counts.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.pairs
            .iter()
            .rev()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// All values of an argument.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs
            .iter()
            .filter(move |(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// A comma list: trimmed, in lower case, each entry once.
    pub(crate) fn list(&self, name: &str) -> Option<Vec<String>> {
        let text = self.text(name)?;
        let mut entries: Vec<String> = Vec::new();
        for entry in text.split(',') {
            let entry = entry.trim().to_lowercase();
            if !entry.is_empty() && !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        Some(entries)
    }

    /// A comma list of names as they are written. An empty one is nobody's name,
    /// so that it finds nothing.
    pub(crate) fn names(&self, name: &str) -> Vec<String> {
        let entries = self.text(name).into_iter().flat_map(|text| text.split(','));
        entries.map(|entry| entry.trim().to_owned()).collect()
    }

    /// A boolean in one of the usual words.
    pub(crate) fn bool(&self, name: &str) -> Result<Option<bool>> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" | "t" | "y" => Ok(Some(true)),
            "false" | "0" | "no" | "off" | "f" | "n" => Ok(Some(false)),
            _ => Err(ApiError::bad_request(format!(
                "Invalid {name}: expected true or false, found {text:?}"
            ))),
        }
    }

    /// A UUID.
    pub(crate) fn uuid(&self, name: &str) -> Result<Option<Uuid>> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .map_err(|_| ApiError::bad_request(format!("Expected UUID for {name}: {text}")))
    }

    /// Every argument that was given, apart from those named.
    pub(crate) fn others<'a>(
        &'a self,
        without: &'a [&str],
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let other = move |pair: &&(String, String)| !without.contains(&pair.0.as_str());
        self.pairs
            .iter()
            .filter(other)
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Percent-encodes a value for a link; commas and colons stay readable.
pub(crate) fn encode(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~,:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::http::Uri;
    use wrought_wire::microversion::Microversion;

    use super::Query;
    use super::encode;
    use crate::context::Context;

    fn read(query: &'static str, version: u16) -> crate::error::Result<Query> {
        let context = Context {
            version: Microversion(version),
            base: Arc::from(""),
        };
        let known = [("fields", 8), ("maintenance", 1), ("marker", 1)];
        Query::read(&Uri::from_static(query), &context, &known)
    }

    #[test]
    fn strict_about_names_versions_and_values() {
        assert_eq!(read("/?bogus=1", 115).unwrap_err().status(), 400);
        assert_eq!(read("/?fields=uuid", 7).unwrap_err().status(), 406);
        let query = read("/?maintenance=On&fields=%20UUID,name,,uuid", 115).unwrap();
        assert_eq!(query.bool("maintenance").unwrap(), Some(true));
        assert_eq!(query.list("fields").unwrap(), ["uuid", "name"]);
        assert!(
            read("/?maintenance=maybe", 1)
                .unwrap()
                .bool("maintenance")
                .is_err()
        );
        assert!(read("/?marker=zzz", 1).unwrap().uuid("marker").is_err());
    }

    #[test]
    fn links_carry_odd_values() {
        assert_eq!(encode("a b&c=é"), "a%20b%26c%3D%C3%A9");
        assert_eq!(encode("uuid,name"), "uuid,name");
    }
}
