//! Versions of a node's firmware as its BMC tells them.

use serde::Deserialize;
use serde::Serialize;

use crate::part::Part;

/// One piece of firmware. Field names are the API's (1.86; vendor, model and
/// serial number from 1.114 on).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FirmwareComponent {
    /// What it runs on: `bios`, `bmc`…
    pub component: String,
    /// The version that was read first.
    pub initial_version: String,
    /// The version that was read last.
    pub current_version: Option<String>,
    /// The version that was last written by us.
    pub last_version_flashed: Option<String>,
    /// Maker of the part.
    pub vendor: Option<String>,
    /// Model of the part.
    pub model: Option<String>,
    /// Serial number of the part.
    pub serial_number: Option<String>,
}

impl FirmwareComponent {
    /// A component of which a version was read.
    pub fn read(component: impl Into<String>, version: impl Into<String>) -> Self {
        let version = version.into();
        Self {
            component: component.into(),
            initial_version: version.clone(),
            current_version: Some(version),
            ..Self::default()
        }
    }
}

impl Part for FirmwareComponent {
    const TABLE: &'static str = "firmware_components";

    fn name(&self) -> &str {
        &self.component
    }

    fn follow(&mut self, before: &Self) {
        self.initial_version.clone_from(&before.initial_version);
        if self.last_version_flashed.is_none() {
            self.last_version_flashed
                .clone_from(&before.last_version_flashed);
        }
    }
}
