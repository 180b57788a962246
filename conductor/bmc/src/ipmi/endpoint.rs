//! Where a BMC is and who we are there, read from a node's `driver_info`.

use serde_json::Map;
use serde_json::Value;
use wrought_wire::secret::Secret;

use super::Error;
use super::Result;
use super::Suite;
use crate::property;

/// UDP port of RMCP.
const PORT: u16 = 623;
/// Longest user name (§13.20).
const USER_LIMIT: usize = 16;
/// Longest password (§22.30), and length of a K_G key.
const KEY_LIMIT: usize = 20;

/// What a session may do (§6.8).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Privilege {
    /// Next to nothing.
    Callback,
    /// Read.
    User,
    /// Read, power and boot device.
    Operator,
    /// Everything.
    #[default]
    Administrator,
}

impl Privilege {
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Callback => 1,
            Self::User => 2,
            Self::Operator => 3,
            Self::Administrator => 4,
        }
    }
}

/// One BMC.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// IP address or host name.
    pub address: String,
    /// UDP port.
    pub port: u16,
    /// User; empty for the anonymous one.
    pub username: String,
    /// Password of the user.
    pub password: Secret,
    /// K_G, the BMC's own key; none where the password serves as well.
    pub kg: Option<Secret>,
    /// Rights that are asked for.
    pub privilege: Privilege,
    /// Cipher suite; none: 17, then 3.
    pub suite: Option<Suite>,
    /// Whether the BMC is told to keep a boot device for longer than the 60
    /// seconds of §28.13.
    pub disable_boot_timeout: bool,
}

impl Endpoint {
    /// Reads the `ipmi_*` properties of a node's `driver_info`.
    ///
    /// # Errors
    /// [`Error::Endpoint`] for what is missing, malformed or not spoken here
    /// (IPMI 1.5, bridging).
    pub fn from_driver_info(info: &Map<String, Value>) -> Result<Self> {
        let address = text(info, "ipmi_address")?
            .ok_or_else(|| bad("ipmi_address", "expected the BMC's address, found nothing"))?;
        let username = text(info, "ipmi_username")?.unwrap_or_default();
        if username.len() > USER_LIMIT {
            return Err(bad(
                "ipmi_username",
                format!(
                    "expected at most {USER_LIMIT} bytes, found {}",
                    username.len()
                ),
            ));
        }
        let password = text(info, "ipmi_password")?.unwrap_or_default();
        if password.len() > KEY_LIMIT {
            return Err(bad(
                "ipmi_password",
                format!(
                    "expected at most {KEY_LIMIT} bytes, found {}",
                    password.len()
                ),
            ));
        }
        refuse_other(info, "ipmi_protocol_version", "2.0")?;
        refuse_other(info, "ipmi_bridging", "no")?;
        Ok(Self {
            address: unbracketed(&address).to_owned(),
            port: port(info)?,
            username,
            password: Secret::new(password),
            kg: kg(info)?,
            privilege: privilege(info)?,
            suite: suite(info)?,
            disable_boot_timeout: flag(info, "ipmi_disable_boot_timeout")?.unwrap_or(true),
        })
    }

    /// Address and port as messages show them.
    pub(super) fn shown(&self) -> String {
        match self.address.contains(':') {
            true => format!("[{}]:{}", self.address, self.port),
            false => format!("{}:{}", self.address, self.port),
        }
    }
}

fn bad(property: &'static str, problem: impl Into<String>) -> Error {
    Error::Endpoint {
        property,
        problem: problem.into(),
    }
}

/// An IPv6 address may stand in brackets.
fn unbracketed(address: &str) -> &str {
    let inner = address
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    inner.unwrap_or(address)
}

/// A text property; numbers are taken as text.
fn text(info: &Map<String, Value>, property: &'static str) -> Result<Option<String>> {
    property::text(info, property).map_err(|problem| bad(property, problem))
}

fn flag(info: &Map<String, Value>, property: &'static str) -> Result<Option<bool>> {
    if let Some(Value::Bool(yes)) = info.get(property) {
        return Ok(Some(*yes));
    }
    let Some(text) = text(info, property)? else {
        return Ok(None);
    };
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" | "t" | "y" => Ok(Some(true)),
        "false" | "0" | "no" | "off" | "f" | "n" => Ok(Some(false)),
        other => Err(bad(
            property,
            format!("expected true or false, found {other:?}"),
        )),
    }
}

/// Ironic knows more values of these than are spoken here.
fn refuse_other(
    info: &Map<String, Value>,
    property: &'static str,
    spoken: &'static str,
) -> Result<()> {
    match text(info, property)? {
        Some(other) if other != spoken => Err(bad(
            property,
            format!("expected {spoken:?}, found {other:?}, which is not supported here"),
        )),
        _ => Ok(()),
    }
}

fn port(info: &Map<String, Value>) -> Result<u16> {
    let Some(text) = text(info, "ipmi_port")? else {
        return Ok(PORT);
    };
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(bad(
            "ipmi_port",
            format!("expected a number from 1 to 65535, found {text:?}"),
        )),
    }
}

fn kg(info: &Map<String, Value>) -> Result<Option<Secret>> {
    let property = "ipmi_hex_kg_key";
    let Some(text) = text(info, property)? else {
        return Ok(None);
    };
    let hex = text.strip_prefix("0x").unwrap_or(&text);
    let sound = hex.len() == 2 * KEY_LIMIT && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !sound {
        return Err(bad(
            property,
            format!(
                "expected {} hexadecimal digits, found another form",
                2 * KEY_LIMIT
            ),
        ));
    }
    Ok(Some(Secret::new(hex.to_owned())))
}

fn privilege(info: &Map<String, Value>) -> Result<Privilege> {
    let property = "ipmi_priv_level";
    let level = text(info, property)?.map(|level| level.to_ascii_uppercase());
    match level.as_deref() {
        None | Some("ADMINISTRATOR") => Ok(Privilege::Administrator),
        Some("OPERATOR") => Ok(Privilege::Operator),
        Some("USER") => Ok(Privilege::User),
        Some("CALLBACK") => Ok(Privilege::Callback),
        Some(other) => Err(bad(
            property,
            format!("expected ADMINISTRATOR, OPERATOR, USER or CALLBACK, found {other:?}"),
        )),
    }
}

fn suite(info: &Map<String, Value>) -> Result<Option<Suite>> {
    let property = "ipmi_cipher_suite";
    match text(info, property)?.as_deref() {
        None => Ok(None),
        Some("3") => Ok(Some(Suite::Sha1)),
        Some("17") => Ok(Some(Suite::Sha256)),
        Some(other) => Err(bad(
            property,
            format!("expected 3 or 17 (others are not safe), found {other:?}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use serde_json::Value;
    use serde_json::json;

    use super::Endpoint;
    use super::Privilege;
    use crate::ipmi::Suite;

    fn info(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn reads_driver_info() {
        let endpoint = Endpoint::from_driver_info(&info(json!({
            "ipmi_address": "[2001:db8::1]", "ipmi_port": 6230, "ipmi_username": "root",
            "ipmi_password": "hunter2", "ipmi_priv_level": "operator", "ipmi_cipher_suite": 3,
            "ipmi_hex_kg_key": "00112233445566778899aabbccddeeff00112233",
            "ipmi_disable_boot_timeout": "False", "ipmi_bridging": "no",
        })))
        .unwrap();
        assert_eq!(endpoint.shown(), "[2001:db8::1]:6230");
        assert_eq!(endpoint.privilege, Privilege::Operator);
        assert_eq!(endpoint.suite, Some(Suite::Sha1));
        assert!(!endpoint.disable_boot_timeout && endpoint.kg.is_some());
        let shown = format!("{endpoint:?}");
        assert!(
            !shown.contains("hunter2") && !shown.contains("aabbcc"),
            "{shown}"
        );
    }

    #[test]
    fn refuses_what_cannot_work() {
        let bad = [
            (json!({}), "ipmi_address"),
            (json!({"ipmi_port": 0}), "ipmi_port"),
            (json!({"ipmi_port": "x"}), "65535"),
            (json!({"ipmi_username": "a-name-of-17-bytes"}), "16"),
            (json!({"ipmi_password": "a password of 21 byte"}), "20"),
            (json!({"ipmi_hex_kg_key": "abc"}), "40"),
            (json!({"ipmi_priv_level": "root"}), "OPERATOR"),
            (json!({"ipmi_cipher_suite": "0"}), "17"),
            (json!({"ipmi_protocol_version": "1.5"}), "2.0"),
            (json!({"ipmi_bridging": "dual"}), "dual"),
            (json!({"ipmi_disable_boot_timeout": "maybe"}), "maybe"),
        ];
        for (with, word) in bad {
            let mut info = info(with);
            if word != "ipmi_address" {
                info.insert("ipmi_address".to_owned(), json!("192.0.2.1"));
            }
            let error = Endpoint::from_driver_info(&info).unwrap_err();
            assert!(
                error.is_configuration() && error.to_string().contains(word),
                "{error}"
            );
        }
    }
}
