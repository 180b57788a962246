//! Where a BMC is and how to talk to it, read from a node's `driver_info`.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use reqwest::Url;
use serde_json::Map;
use serde_json::Value;
use wrought_wire::secret::Secret;

use super::Error;
use super::Result;
use crate::property;

/// Largest CA file that is read, in bytes.
const CA_LIMIT: u64 = 1 << 20;

/// Which certificates are accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Verify {
    /// Those that the system's CAs vouch for.
    #[default]
    Yes,
    /// All.
    No,
    /// Those that these CAs (PEM) vouch for.
    CaPem(String),
}

/// How the client says who it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum AuthType {
    /// By a session where the service has them, else by basic authentication.
    #[default]
    Auto,
    /// By a session only.
    Session,
    /// By basic authentication only.
    Basic,
}

/// One BMC's Redfish service.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// `https://192.0.2.1`; without a scheme, https is meant.
    pub address: String,
    /// Path of the system, such as `/redfish/v1/Systems/1`; not needed when the
    /// service has one system.
    pub system_id: Option<String>,
    /// User; none for a service without authentication.
    pub username: Option<String>,
    /// Password of the user.
    pub password: Secret,
    /// Which certificates are accepted.
    pub verify: Verify,
    /// How the client says who it is.
    pub auth: AuthType,
}

/// Patience of a client.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// How often a request is tried when the BMC is busy or unreachable.
    pub attempts: u32,
    /// Pause between two attempts.
    pub delay: Duration,
    /// Time for a connection to be made.
    pub connect_timeout: Duration,
    /// Time for one request and its answer.
    pub request_timeout: Duration,
    /// Pause between two looks at a state that is to be reached.
    pub poll: Duration,
    /// Time for power to be switched.
    pub power_timeout: Duration,
    /// Time for an operating system to shut down.
    pub soft_power_timeout: Duration,
    /// Time for virtual media to be inserted or ejected.
    pub media_timeout: Duration,
    /// Largest answer, in bytes.
    pub body_limit: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            attempts: 5,
            delay: Duration::from_secs(4),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(60),
            poll: Duration::from_secs(1),
            power_timeout: Duration::from_secs(60),
            soft_power_timeout: Duration::from_secs(600),
            media_timeout: Duration::from_secs(30),
            body_limit: 4 << 20,
        }
    }
}

impl Endpoint {
    /// Reads the `redfish_*` properties of a node's `driver_info`. A CA path
    /// given as `redfish_verify_ca` is read here.
    pub fn from_driver_info(info: &Map<String, Value>) -> Result<Self> {
        let address = text(info, "redfish_address")?.ok_or_else(|| Error::Endpoint {
            property: "redfish_address",
            problem: "expected the URL of the BMC, found nothing".to_owned(),
        })?;
        let endpoint = Self {
            address,
            system_id: text(info, "redfish_system_id")?,
            username: text(info, "redfish_username")?,
            password: Secret::new(text(info, "redfish_password")?.unwrap_or_default()),
            verify: verify(info)?,
            auth: auth(info)?,
        };
        endpoint.base()?;
        Ok(endpoint)
    }

    /// The service's origin as a URL without path.
    pub(crate) fn base(&self) -> Result<Url> {
        let bad = |problem: String| Error::Endpoint {
            property: "redfish_address",
            problem,
        };
        let address = self.address.trim();
        let with_scheme = if address.contains("://") {
            address.to_owned()
        } else {
            format!("https://{address}")
        };
        let mut url =
            Url::parse(&with_scheme).map_err(|cause| bad(format!("not a URL: {cause}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad(format!(
                "expected http or https, found {}",
                url.scheme()
            )));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad(
                "credentials belong into redfish_username and redfish_password, not into the URL"
                    .to_owned(),
            ));
        }
        if !matches!(
            url.path().trim_end_matches('/'),
            "" | "/redfish" | "/redfish/v1"
        ) {
            return Err(bad(format!(
                "expected scheme, host and port alone, found the path {}",
                url.path()
            )));
        }
        url.set_path("/");
        url.set_query(None);
        url.set_fragment(None);
        Ok(url)
    }
}

/// A text property; numbers are taken as text.
fn text(info: &Map<String, Value>, property: &'static str) -> Result<Option<String>> {
    property::text(info, property).map_err(|problem| Error::Endpoint { property, problem })
}

/// `redfish_verify_ca`: a boolean (also as text) or the path of a PEM file.
fn verify(info: &Map<String, Value>) -> Result<Verify> {
    let path = match info.get("redfish_verify_ca") {
        None | Some(Value::Null | Value::Bool(true)) => return Ok(Verify::Yes),
        Some(Value::Bool(false)) => return Ok(Verify::No),
        Some(Value::String(text)) => match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" | "t" | "y" | "" => return Ok(Verify::Yes),
            "false" | "0" | "no" | "off" | "f" | "n" => return Ok(Verify::No),
            _ => text,
        },
        Some(_) => {
            return Err(Error::Endpoint {
                property: "redfish_verify_ca",
                problem: "expected true, false or the path of a PEM file".to_owned(),
            });
        }
    };
    let mut pem = String::new();
    File::open(path)
        .and_then(|file| file.take(CA_LIMIT).read_to_string(&mut pem))
        .map_err(|cause| Error::Endpoint {
            property: "redfish_verify_ca",
            problem: format!("expected a readable PEM file at {path}: {cause}"),
        })?;
    Ok(Verify::CaPem(pem))
}

/// `redfish_auth_type`.
fn auth(info: &Map<String, Value>) -> Result<AuthType> {
    let kind = text(info, "redfish_auth_type")?.map(|kind| kind.to_ascii_lowercase());
    match kind.as_deref() {
        None | Some("auto") => Ok(AuthType::Auto),
        Some("session") => Ok(AuthType::Session),
        Some("basic") => Ok(AuthType::Basic),
        Some(other) => Err(Error::Endpoint {
            property: "redfish_auth_type",
            problem: format!("expected auto, session or basic, found {other:?}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use serde_json::Value;
    use serde_json::json;

    use super::AuthType;
    use super::Endpoint;
    use super::Verify;

    fn info(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn reads_driver_info() {
        let endpoint = Endpoint::from_driver_info(&info(json!({
            "redfish_address": "192.0.2.1:8443", "redfish_username": "root",
            "redfish_password": "hunter2", "redfish_verify_ca": "False",
            "redfish_auth_type": "BASIC",
        })))
        .unwrap();
        assert_eq!(endpoint.base().unwrap().as_str(), "https://192.0.2.1:8443/");
        assert_eq!(endpoint.verify, Verify::No);
        assert_eq!(endpoint.auth, AuthType::Basic);
        assert!(!format!("{endpoint:?}").contains("hunter2"));
    }

    #[test]
    fn refuses_what_cannot_work() {
        for (bad, word) in [
            (json!({}), "redfish_address"),
            (json!({"redfish_address": "ftp://b"}), "http or https"),
            (json!({"redfish_address": "https://u:p@b"}), "credentials"),
            (json!({"redfish_address": "https://b/other"}), "/other"),
            (
                json!({"redfish_address": 1, "redfish_auth_type": "x"}),
                "auto, session",
            ),
            (
                json!({"redfish_address": "b", "redfish_verify_ca": "/nowhere/ca.pem"}),
                "PEM",
            ),
            (json!({"redfish_address": ["b"]}), "text"),
        ] {
            let error = Endpoint::from_driver_info(&info(bad)).unwrap_err();
            assert!(
                error.is_configuration() && error.to_string().contains(word),
                "{error}"
            );
        }
    }
}
