//! Ironic's error body: `{"error_message": "<JSON as a string>"}`.

use serde::Deserialize;
use serde::Serialize;

/// What went wrong, with the HTTP status that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// HTTP status.
    pub status: u16,
    /// One or more sentences: object, expected, found, what to do.
    pub message: String,
}

#[derive(Serialize, Deserialize)]
struct Inner {
    debuginfo: Option<String>,
    faultcode: String,
    faultstring: String,
}

#[derive(Serialize, Deserialize)]
struct Outer {
    error_message: String,
}

impl Fault {
    /// A fault with a status and a message.
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    /// The body as Ironic sends it: JSON in a string in JSON.
    pub fn to_body(&self) -> String {
        let faultcode = if self.status >= 500 {
            "Server"
        } else {
            "Client"
        };
        let inner = Inner {
            debuginfo: None,
            faultcode: faultcode.to_owned(),
            faultstring: self.message.clone(),
        };
        let encode = |value: Result<String, serde_json::Error>| value.unwrap_or_default();
        let error_message = encode(serde_json::to_string(&inner));
        encode(serde_json::to_string(&Outer { error_message }))
    }

    /// Reads the message back from a body, in the string form and in the
    /// object form that some layers send.
    pub fn message_from_body(body: &str) -> Option<String> {
        let outer: serde_json::Value = serde_json::from_str(body).ok()?;
        let message = outer.get("error_message").unwrap_or(&outer);
        let inner = match message {
            serde_json::Value::String(text) => match serde_json::from_str(text) {
                Ok(inner) => inner,
                Err(_) => return Some(text.clone()),
            },
            other => other.clone(),
        };
        Some(inner.get("faultstring")?.as_str()?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::Fault;

    #[test]
    fn doubly_encoded_and_back() {
        let body = Fault::new(404, "Node \"x\" could not be found.").to_body();
        assert!(body.starts_with("{\"error_message\":\"{\\\"debuginfo\\\":null"));
        assert_eq!(
            Fault::message_from_body(&body).as_deref(),
            Some("Node \"x\" could not be found.")
        );
    }
}
