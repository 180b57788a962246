//! What is driven through the kills: six flows, and the ways between the states
//! in which they begin.

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use reqwest::Method;
use serde_json::Value;
use serde_json::json;

use crate::api::Api;

/// A flow from one state in which a node rests to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flow {
    /// A manual cleaning, with a step that restarts the machine and one that
    /// must not run twice.
    Clean,
    /// A deploy.
    Deploy,
    /// A rescue.
    Rescue,
    /// Service of a node in use.
    Service,
    /// The image once more.
    Rebuild,
    /// The end of an instance, with automated cleaning.
    Delete,
}

impl Flow {
    /// All of them, in an order in which a node can go through them.
    pub const ALL: [Self; 6] = [
        Self::Clean,
        Self::Deploy,
        Self::Rescue,
        Self::Service,
        Self::Rebuild,
        Self::Delete,
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Deploy => "deploy",
            Self::Rescue => "rescue",
            Self::Service => "service",
            Self::Rebuild => "rebuild",
            Self::Delete => "delete",
        }
    }

    /// Where it begins.
    pub const fn from(self) -> &'static str {
        match self {
            Self::Clean => "manageable",
            Self::Deploy => "available",
            _ => "active",
        }
    }

    /// Where it ends.
    pub const fn to(self) -> &'static str {
        match self {
            Self::Clean => "manageable",
            Self::Deploy | Self::Service | Self::Rebuild => "active",
            Self::Rescue => "rescue",
            Self::Delete => "available",
        }
    }

    /// Whether the machine is on at its end.
    pub const fn ends_on(self) -> bool {
        !matches!(self, Self::Clean | Self::Delete)
    }

    /// The request.
    fn request(self) -> (&'static str, Value) {
        let step =
            |interface: &str, step: &str| json!({"interface": interface, "step": step, "args": {}});
        match self {
            Self::Clean => (
                "clean",
                json!({"clean_steps": [
                    step("deploy", "erase_devices_metadata"),
                    step("management", "update_firmware"),
                    step("raid", "delete_configuration"),
                ]}),
            ),
            Self::Deploy => (
                "active",
                json!({"configdrive": {"meta_data": {"name": "n"}}}),
            ),
            Self::Rescue => ("rescue", json!({"rescue_password": "let-me-in"})),
            Self::Service => (
                "service",
                json!({"service_steps": [
                    step("deploy", "check_disks"),
                    step("management", "update_firmware"),
                    step("raid", "apply_configuration"),
                ]}),
            ),
            Self::Rebuild => ("rebuild", json!({})),
            Self::Delete => ("deleted", json!({})),
        }
    }

    /// Prepares the node, which is in the state where this begins, and asks for
    /// it.
    pub async fn begin(self, api: &Api, node: &str) -> Result<()> {
        if matches!(self, Self::Deploy | Self::Rebuild) {
            api.set(node, &[("/instance_info", image())]).await?;
        }
        let cleaned = json!(self == Self::Delete);
        api.set(node, &[("/automated_clean", cleaned)]).await?;
        let (target, extra) = self.request();
        api.provision(node, target, extra).await
    }
}

fn image() -> Value {
    json!({
        "image_source": "http://192.0.2.1/image.raw", "image_disk_format": "raw",
        "image_os_hash_algo": "sha256", "image_os_hash_value": "0".repeat(64),
    })
}

/// One verb from a state of rest to the next.
const WAYS: [(&str, &str, &str); 6] = [
    ("enroll", "manage", "manageable"),
    ("available", "manage", "manageable"),
    ("manageable", "provide", "available"),
    ("available", "active", "active"),
    ("rescue", "unrescue", "active"),
    ("active", "deleted", "available"),
];

/// The verb with which a node in `state` gets nearer to `wanted`, and the state
/// that it leads to; none when it is there.
pub fn next(state: &str, wanted: &str) -> Result<Option<(&'static str, &'static str)>> {
    if state == wanted {
        return Ok(None);
    }
    // Breadth first, from the end.
    let mut reached = vec![wanted];
    let mut looked = 0;
    while let Some(to) = reached.get(looked).copied() {
        looked += 1;
        for (from, verb, end) in WAYS {
            if end != to || reached.contains(&from) {
                continue;
            }
            if from == state {
                return Ok(Some((verb, end)));
            }
            reached.push(from);
        }
    }
    bail!("there is no way from {state} to {wanted}")
}

/// Asks for the verb of [`next`].
pub async fn go(api: &Api, node: &str, verb: &str) -> Result<()> {
    api.set(node, &[("/automated_clean", json!(false))]).await?;
    if verb == "active" {
        return Flow::Deploy.begin(api, node).await;
    }
    api.provision(node, verb, json!({})).await
}

/// Makes a node of a machine with this `driver_info` and NIC; gives its UUID.
pub async fn enrol(api: &Api, name: &str, driver_info: Value, mac: &str) -> Result<String> {
    let node = json!({
        "name": name, "driver": "redfish", "boot_interface": "ipxe", "deploy_interface": "direct",
        "rescue_interface": "agent", "driver_info": driver_info, "automated_clean": false,
        "properties": {"capabilities": "boot_mode:uefi"},
    });
    let node = api.call(Method::POST, "/v1/nodes", Some(&node)).await?;
    let node = node["uuid"].as_str().context("a node without uuid")?;
    let port = json!({"node_uuid": node, "address": mac});
    api.call(Method::POST, "/v1/ports", Some(&port)).await?;
    Ok(node.to_owned())
}

#[cfg(test)]
mod tests {
    use super::Flow;
    use super::next;

    #[test]
    fn every_flow_can_be_begun() {
        for flow in Flow::ALL {
            for start in ["enroll", "manageable", "available", "active", "rescue"] {
                let mut state = start;
                while let Some((_, to)) = next(state, flow.from()).unwrap() {
                    state = to;
                }
                assert_eq!(state, flow.from());
            }
        }
        assert_eq!(
            next("enroll", "active").unwrap(),
            Some(("manage", "manageable"))
        );
        assert!(next("deploy failed", "active").is_err());
    }
}
