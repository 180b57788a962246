//! BIOS settings as a node's BMC tells them.

use serde::Deserialize;
use serde::Serialize;

use crate::part::Part;

/// One setting with what the BMC's registry says of it. Field names are the
/// API's (1.40, the registry's from 1.74 on).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BiosSetting {
    /// Its name.
    pub name: String,
    /// Its value as a text.
    pub value: Option<String>,
    /// `Enumeration`, `String`, `Integer`, `Boolean` or `Password`.
    pub attribute_type: Option<String>,
    /// Values of an enumeration.
    pub allowable_values: Option<Vec<String>>,
    /// Smallest number.
    pub lower_bound: Option<i64>,
    /// Largest number.
    pub upper_bound: Option<i64>,
    /// Shortest text, in characters.
    pub min_length: Option<i64>,
    /// Longest text, in characters.
    pub max_length: Option<i64>,
    /// Whether it cannot be set.
    pub read_only: Option<bool>,
    /// Whether a new value holds from the next start on.
    pub reset_required: Option<bool>,
    /// Whether it belongs to this one machine, such as an asset tag.
    pub unique: Option<bool>,
}

impl Part for BiosSetting {
    const TABLE: &'static str = "bios_settings";

    fn name(&self) -> &str {
        &self.name
    }
}
