//! `WWW-Authenticate` headers (RFC 9110, 11.6.1).

/// One way to authenticate that a server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Challenge {
    /// Lower-case scheme, such as `bearer`.
    pub(super) scheme: String,
    params: Vec<(String, String)>,
}

impl Challenge {
    /// A parameter by its lower-case name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.params.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Reads the challenges of one header; what cannot be read is left out.
    pub(super) fn parse_all(header: &str) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for part in split(header) {
            // "Bearer realm=…" begins a challenge, "service=…" goes on.
            let (head, value) = match part.split_once('=') {
                Some((head, value)) => (head.trim(), Some(unquote(value.trim()))),
                None => (part.trim(), None),
            };
            let (scheme, key) = match (head.rsplit_once(char::is_whitespace), &value) {
                (Some((scheme, key)), _) => (Some(scheme.trim()), key),
                (None, Some(_)) => (None, head),
                (None, None) => (Some(head), ""),
            };
            if let Some(scheme) = scheme.filter(|scheme| !scheme.is_empty()) {
                found.push(Self {
                    scheme: scheme.to_ascii_lowercase(),
                    params: Vec::new(),
                });
            }
            if let (Some(value), Some(challenge)) = (value, found.last_mut()) {
                challenge.params.push((key.to_ascii_lowercase(), value));
            }
        }
        found
    }
}

/// Parts between commas that stand outside of quotes.
fn split(header: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut quoted, mut escaped) = (0, false, false);
    for (at, c) in header.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ',' if !quoted => {
                parts.push(&header[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&header[start..]);
    parts
}

fn unquote(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"') else {
        return text.to_owned();
    };
    let mut value = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => value.extend(chars.next()),
            _ => value.push(c),
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use proptest::proptest;

    use super::Challenge;

    proptest! {
        #[test]
        fn any_header_is_read_to_its_end(header in "[a-z=,\"\\\\ é]{0,40}") {
            let found = Challenge::parse_all(&header);
            assert!(found.iter().all(|challenge| !challenge.scheme.is_empty()));
        }
    }

    #[test]
    fn what_registries_send() {
        let header = r#"Bearer realm="https://auth.example/token?x=1",service="r.example",scope="repository:a/b:pull,push", error=invalid_token, Basic realm="it \"is\""#;
        let found = Challenge::parse_all(header);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].scheme, "bearer");
        assert_eq!(
            found[0].get("realm"),
            Some("https://auth.example/token?x=1")
        );
        assert_eq!(found[0].get("scope"), Some("repository:a/b:pull,push"));
        assert_eq!(found[0].get("error"), Some("invalid_token"));
        assert_eq!(found[1].get("realm"), Some("it \"is\""));
        assert_eq!(Challenge::parse_all("Negotiate")[0].scheme, "negotiate");
        assert!(Challenge::parse_all("").is_empty());
        assert!(Challenge::parse_all(", ,=x,\"").len() < 2);
    }
}
