//! The NICs of the system, as far as the service tells of them.

use serde_json::Value;

use super::Client;
use super::Result;
use super::json;

/// NICs that are looked at, at most.
const MOST: usize = 64;

/// One NIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nic {
    /// Its id among those of the system.
    pub id: String,
    /// Its MAC address, as told.
    pub mac: String,
    /// Whether there is a link, when that is told.
    pub link: Option<bool>,
    /// Mbit/s, when told.
    pub speed: Option<u64>,
}

impl Nic {
    /// None for one that is disabled or has no MAC address.
    fn of(path: &str, body: &Value) -> Option<Self> {
        if json::text(body, "/Status/State") == Some("Disabled") {
            return None;
        }
        let mac = json::text(body, "/PermanentMACAddress").or(json::text(body, "/MACAddress"));
        let last = path.trim_end_matches('/').rsplit('/').next();
        Some(Self {
            id: json::text(body, "/Id").or(last)?.to_owned(),
            mac: mac?.to_owned(),
            link: json::text(body, "/LinkStatus").map(|word| word == "LinkUp"),
            speed: body.pointer("/SpeedMbps").and_then(Value::as_u64),
        })
    }
}

impl Client {
    /// The NICs of the system that are not disabled.
    pub async fn nics(&self) -> Result<Vec<Nic>> {
        let (_, system) = self.read_system().await?;
        let Some(path) = json::link(&system.body, "/EthernetInterfaces") else {
            return Ok(Vec::new());
        };
        let Some(collection) = self.optional(&path).await? else {
            return Ok(Vec::new());
        };
        let mut nics = Vec::new();
        let paths = json::links(&collection.body, "/Members");
        for path in paths.into_iter().take(MOST) {
            if let Some(reply) = self.optional(&path).await? {
                nics.extend(Nic::of(&path, &reply.body));
            }
        }
        Ok(nics)
    }
}
