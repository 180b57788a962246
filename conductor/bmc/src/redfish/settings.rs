//! BIOS settings with their registry, and versions of firmware.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Client;
use super::Result;
use super::json;
use super::session::ROOT;

/// Settings and registry entries that are read, at most.
const ATTRIBUTES: usize = 4096;
/// Managers that are looked at, at most.
const MANAGERS: usize = 4;
/// Registries that are looked through, at most.
const REGISTRIES: usize = 64;

/// One BIOS setting; whatever the service leaves out is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its value as a text.
    pub value: Option<String>,
    /// `Enumeration`, `String`, `Integer`, `Boolean` or `Password`.
    pub kind: Option<String>,
    /// Values of an enumeration.
    pub allowable: Option<Vec<String>>,
    /// Smallest and largest number.
    pub bounds: (Option<i64>, Option<i64>),
    /// Fewest and most characters.
    pub lengths: (Option<i64>, Option<i64>),
    /// Whether it cannot be set.
    pub read_only: Option<bool>,
    /// Whether a new value holds from the next start on.
    pub reset_required: Option<bool>,
    /// Whether it belongs to this one machine.
    pub unique: Option<bool>,
}

/// One piece of firmware.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Firmware {
    /// `bios` or `bmc`.
    pub component: String,
    /// Its version.
    pub version: String,
    /// Maker of the part.
    pub vendor: Option<String>,
    /// Model of the part.
    pub model: Option<String>,
    /// Serial number of the part.
    pub serial_number: Option<String>,
}

fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

impl Attribute {
    /// Adds what the registry says.
    fn describe(&mut self, entry: &Value) {
        let number = |key: &str| entry.get(key).and_then(Value::as_i64);
        let flag = |key: &str| entry.get(key).and_then(Value::as_bool);
        let values = entry.get("Value").and_then(Value::as_array);
        let names = |values: &Vec<Value>| {
            let names = values
                .iter()
                .filter_map(|value| json::text(value, "/ValueName"));
            names.map(str::to_owned).collect::<Vec<_>>()
        };
        self.kind = json::text(entry, "/Type").map(str::to_owned);
        self.allowable = values.map(names).filter(|names| !names.is_empty());
        self.bounds = (number("LowerBound"), number("UpperBound"));
        self.lengths = (number("MinLength"), number("MaxLength"));
        self.read_only = flag("ReadOnly");
        self.reset_required = flag("ResetRequired");
        self.unique = flag("IsSystemUniqueProperty");
    }
}

impl Client {
    /// The BIOS settings; none of them when the service does not tell any.
    pub async fn bios(&self) -> Result<Vec<Attribute>> {
        let (_, system) = self.read_system().await?;
        let Some(path) = json::link(&system.body, "/Bios") else {
            return Ok(Vec::new());
        };
        let Some(bios) = self.optional(&path).await? else {
            return Ok(Vec::new());
        };
        let attributes = bios.body.get("Attributes").and_then(Value::as_object);
        let mut found: Vec<Attribute> = attributes
            .into_iter()
            .flatten()
            .take(ATTRIBUTES)
            .map(|(name, value)| Attribute {
                name: name.clone(),
                value: shown(value),
                ..Attribute::default()
            })
            .collect();
        if let Some(registry) = json::text(&bios.body, "/AttributeRegistry") {
            // Values are worth having without what is said of them.
            let entries = self.registry(registry).await.unwrap_or_else(|error| {
                tracing::debug!(address = self.address(), %error, "BIOS registry not read");
                BTreeMap::new()
            });
            for attribute in &mut found {
                if let Some(entry) = entries.get(&attribute.name) {
                    attribute.describe(entry);
                }
            }
        }
        Ok(found)
    }

    /// Entries of the attribute registry with that name; nothing when the
    /// service does not have it.
    async fn registry(&self, name: &str) -> Result<BTreeMap<String, Value>> {
        let root = self.get(ROOT).await?;
        let Some(collection) = json::link(&root.body, "/Registries") else {
            return Ok(BTreeMap::new());
        };
        let Some(registries) = self.optional(&collection).await? else {
            return Ok(BTreeMap::new());
        };
        let paths = json::links(&registries.body, "/Members");
        let likely = |path: &&String| path.rsplit('/').next() == Some(name);
        let named: Vec<&String> = paths.iter().filter(likely).collect();
        let others = paths.iter().filter(|path| !likely(path));
        for path in named.into_iter().chain(others).take(REGISTRIES) {
            let Some(file) = self.optional(path).await? else {
                continue;
            };
            let is = |pointer: &str| json::text(&file.body, pointer) == Some(name);
            if !is("/Id") && !is("/Registry") {
                continue;
            }
            let locations = file.body.get("Location").and_then(Value::as_array);
            let uris = locations.into_iter().flatten();
            let Some(uri) = uris.filter_map(|place| json::text(place, "/Uri")).next() else {
                return Ok(BTreeMap::new());
            };
            let Some(registry) = self.optional(uri).await? else {
                return Ok(BTreeMap::new());
            };
            return Ok(entries(&registry.body));
        }
        Ok(BTreeMap::new())
    }

    /// Versions of the system's and the managers' firmware.
    pub async fn firmware(&self) -> Result<Vec<Firmware>> {
        let (_, system) = self.read_system().await?;
        let mut found = Vec::new();
        let part = |component: String, version: &str, body: &Value| {
            let text = |pointer: &str| json::text(body, pointer).map(str::to_owned);
            Firmware {
                component,
                version: version.to_owned(),
                vendor: text("/Manufacturer"),
                model: text("/Model"),
                serial_number: text("/SerialNumber"),
            }
        };
        if let Some(version) = json::text(&system.body, "/BiosVersion") {
            found.push(part("bios".to_owned(), version, &system.body));
        }
        let managers = self.managers(&system).await?;
        for path in managers.into_iter().take(MANAGERS) {
            let Some(manager) = self.optional(&path).await? else {
                continue;
            };
            if let Some(version) = json::text(&manager.body, "/FirmwareVersion") {
                let component = match found.iter().any(|known| known.component == "bmc") {
                    false => "bmc".to_owned(),
                    true => format!("bmc:{}", path.rsplit('/').next().unwrap_or_default()),
                };
                found.push(part(component, version, &manager.body));
            }
        }
        Ok(found)
    }
}

fn entries(registry: &Value) -> BTreeMap<String, Value> {
    let list = registry.pointer("/RegistryEntries/Attributes");
    let list = list.and_then(Value::as_array).into_iter().flatten();
    let named = list.filter_map(|entry| {
        let name = json::text(entry, "/AttributeName")?;
        Some((name.to_owned(), entry.clone()))
    });
    named.take(ATTRIBUTES).collect()
}
