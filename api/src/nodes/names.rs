//! Which names a node may have.

use uuid::Uuid;

use crate::context::Context;
use crate::version::since;

/// Longest name.
const LONGEST: usize = 255;

/// Words that stand below `/v1/nodes` already.
const RESERVED: &[&str] = &[
    "allocation",
    "bios",
    "children",
    "detail",
    "firmware",
    "history",
    "inventory",
    "maintenance",
    "management",
    "portgroups",
    "ports",
    "states",
    "traits",
    "validate",
    "vendor_passthru",
    "vifs",
    "vmedia",
    "volume",
];

/// Whether a name may be given. Before 1.10 it must be a host name.
pub(crate) fn is_valid(name: &str, context: &Context) -> bool {
    let character = |c: char| {
        c.is_ascii_alphanumeric()
            || match context.has(since::LONG_NAMES) {
                true => "-._~".contains(c),
                false => "-.".contains(c),
            }
    };
    let label = |label: &str| {
        !label.is_empty() && label.len() <= 63 && !label.starts_with('-') && !label.ends_with('-')
    };
    !name.is_empty()
        && name.len() <= LONGEST
        && name.chars().all(character)
        && (context.has(since::LONG_NAMES) || name.split('.').all(label))
        && name.parse::<Uuid>().is_err()
        && !RESERVED.contains(&name)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wrought_wire::microversion::Microversion;

    use super::is_valid;
    use crate::context::Context;

    #[test]
    fn names_by_version() {
        let at = |version| Context {
            version: Microversion(version),
            base: Arc::from(""),
        };
        for good in ["n1", "rack-1.node~2", "_x"] {
            assert!(is_valid(good, &at(115)), "{good}");
        }
        for bad in [
            "",
            "bad name!",
            "detail",
            "0c7bb1a2-8b3f-4e7e-9d5e-1f2a3b4c5d6e",
            "a/b",
            "é",
        ] {
            assert!(!is_valid(bad, &at(115)), "{bad}");
        }
        assert!(is_valid("rack-1.node", &at(9)));
        assert!(!is_valid("_x", &at(9)) && !is_valid("-a.b", &at(9)));
    }
}
