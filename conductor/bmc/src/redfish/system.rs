//! The system: finding it and reading what it is.

use serde_json::Value;

use super::Client;
use super::Error;
use super::Result;
use super::http::Reply;
use super::json;
use super::session::ROOT;

/// What a system says of itself; whatever it leaves out is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct System {
    /// Its path, such as `/redfish/v1/Systems/1`.
    pub path: String,
    /// Manufacturer.
    pub manufacturer: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Serial number.
    pub serial_number: Option<String>,
    /// SMBIOS UUID.
    pub uuid: Option<String>,
    /// Version of the system firmware.
    pub bios_version: Option<String>,
    /// Memory in GiB, as told.
    pub memory_gib: Option<u64>,
    /// Count of processors, as told.
    pub processors: Option<u64>,
}

impl Client {
    /// Reads the system. Also the cheapest way to check address, credentials
    /// and system id together.
    pub async fn system(&self) -> Result<System> {
        let (path, reply) = self.read_system().await?;
        let text = |pointer: &str| json::text(&reply.body, pointer).map(str::to_owned);
        let number = |pointer: &str| reply.body.pointer(pointer).and_then(Value::as_u64);
        Ok(System {
            path,
            manufacturer: text("/Manufacturer"),
            model: text("/Model"),
            serial_number: text("/SerialNumber"),
            uuid: text("/UUID"),
            bios_version: text("/BiosVersion"),
            memory_gib: number("/MemorySummary/TotalSystemMemoryGiB"),
            processors: number("/ProcessorSummary/Count"),
        })
    }

    /// Health of the system with all its parts; none when the service does not
    /// tell.
    pub async fn health(&self) -> Result<Option<String>> {
        let (_, system) = self.read_system().await?;
        let told = json::text(&system.body, "/Status/HealthRollup")
            .or_else(|| json::text(&system.body, "/Status/Health"));
        let known = |word: &&str| matches!(*word, "OK" | "Warning" | "Critical");
        Ok(told.filter(known).map(str::to_owned))
    }

    /// Switches secure boot on or off from the next start on.
    pub async fn set_secure_boot(&self, on: bool) -> Result<()> {
        let (path, system) = self.read_system().await?;
        let Some(secure) = json::link(&system.body, "/SecureBoot") else {
            return Err(Error::Unsupported {
                path,
                wanted: "SecureBoot".to_owned(),
                offered: "no such resource".to_owned(),
            });
        };
        let now = self.get(&secure).await?;
        if now
            .body
            .pointer("/SecureBootEnable")
            .and_then(Value::as_bool)
            == Some(on)
        {
            return Ok(());
        }
        let body = serde_json::json!({"SecureBootEnable": on});
        self.patch(&secure, &body, now.etag.as_deref())
            .await
            .map(drop)
    }

    /// Whether the system last booted with secure boot on; none when the
    /// service does not tell.
    pub async fn secure_boot(&self) -> Result<Option<bool>> {
        let (_, system) = self.read_system().await?;
        let Some(path) = json::link(&system.body, "/SecureBoot") else {
            return Ok(None);
        };
        let body = match self.get(&path).await {
            Ok(reply) => reply.body,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(match json::text(&body, "/SecureBootCurrentBoot") {
            Some("Enabled") => Some(true),
            Some("Disabled") => Some(false),
            _ => body.pointer("/SecureBootEnable").and_then(Value::as_bool),
        })
    }

    /// The path of the system: the one configured, or the only one there is.
    pub(crate) async fn system_path(&self) -> Result<&str> {
        let find = || async {
            match &self.inner.endpoint.system_id {
                Some(id) if id.starts_with('/') => Ok(id.trim_end_matches('/').to_owned()),
                Some(id) => Ok(format!("/redfish/v1/Systems/{id}")),
                None => self.discover().await,
            }
        };
        self.inner
            .system
            .get_or_try_init(find)
            .await
            .map(String::as_str)
    }

    /// The system's resource and its path.
    pub(crate) async fn read_system(&self) -> Result<(String, Reply)> {
        let path = self.system_path().await?;
        match self.get(path).await {
            Ok(reply) => Ok((path.to_owned(), reply)),
            Err(Error::NotFound { path, .. }) => {
                let expected = "the system named by redfish_system_id".to_owned();
                Err(Error::NotFound { path, expected })
            }
            Err(error) => Err(error),
        }
    }

    async fn discover(&self) -> Result<String> {
        let root = self.get(ROOT).await?.body;
        let collection =
            json::link(&root, "/Systems").unwrap_or_else(|| "/redfish/v1/Systems".to_owned());
        let mut members = json::links(&self.get(&collection).await?.body, "/Members");
        match (members.pop(), members.len()) {
            (Some(only), 0) => Ok(only),
            (None, _) => Err(Error::NotFound {
                path: collection,
                expected: "one system, so that redfish_system_id can be left out".to_owned(),
            }),
            (Some(last), _) => {
                members.push(last);
                members.truncate(16);
                Err(Error::Malformed {
                    path: collection,
                    expected: "one system; set redfish_system_id".to_owned(),
                    found: members.join(", "),
                })
            }
        }
    }
}
