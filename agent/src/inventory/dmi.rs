//! Maker, product and firmware, as the kernel copies them from SMBIOS.

use serde_json::Value;
use serde_json::json;

use super::Roots;
use crate::disk::sysfs;

/// What the inventory tells of them; empty where the firmware says nothing.
pub(super) fn vendor(roots: Roots<'_>) -> Value {
    let field = |name: &str| {
        let path = roots.sys.join("class/dmi/id").join(name);
        sysfs::text(&path).unwrap_or_default()
    };
    json!({
        "product_name": field("product_name"),
        "serial_number": field("product_serial"),
        "manufacturer": field("sys_vendor"),
        "firmware": {
            "vendor": field("bios_vendor"),
            "version": field("bios_version"),
            "build_date": field("bios_date"),
        },
    })
}
