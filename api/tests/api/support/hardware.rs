//! The pretended conductor's hardware: says what Ironic's `fake-hardware` says,
//! and answers from the database what is stored there.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_rpc::Conductor;
use wrought_rpc::Error;
use wrought_rpc::Hardware;
use wrought_rpc::Indicator;
use wrought_rpc::Kind;
use wrought_rpc::Media;
use wrought_rpc::MediaDevice;
use wrought_rpc::Result;
use wrought_rpc::VendorCall;
use wrought_rpc::VendorMethod;
use wrought_rpc::Vif;
use wrought_store::Node;
use wrought_wire::state::BootMode;
use wrought_wire::state::IndicatorState;
use wrought_wire::state::MediaKind;

use super::conductor::Fake;
use super::conductor::from_store;

fn unsupported(extension: &str) -> Error {
    let text =
        format!("Driver fake-hardware does not support {extension} (disabled or not implemented).");
    Error::new(Kind::Unsupported, text)
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(Kind::InvalidParameter, text)
}

impl Fake {
    async fn change(&self, node: Uuid, change: impl FnOnce(&mut Node) + Send) -> Result<()> {
        let lease = self.lock(node).await?;
        let found = self.store.node_by_uuid(node).await.map_err(from_store)?;
        let mut node = found.ok_or_else(|| Error::new(Kind::NotFound, "no such node"))?;
        change(&mut node);
        let saved = self.store.save_node(&lease, &mut node).await;
        self.store.unlock(lease).await.map_err(from_store)?;
        saved.map_err(from_store)
    }
}

#[async_trait]
impl Hardware for Fake {
    async fn set_target_raid(&self, node: Uuid, config: Map<String, Value>) -> Result<()> {
        self.change(node, |node| node.target_raid_config = config)
            .await
    }

    async fn raid_properties(&self, driver: &str) -> Result<BTreeMap<String, String>> {
        match self.drivers().iter().any(|known| known.name == driver) {
            true if driver == "fake-hardware" => {
                Ok(BTreeMap::from([("size_gb".to_owned(), "Size.".to_owned())]))
            }
            true => Err(unsupported("raid")),
            false => Err(Error::new(
                Kind::NotFound,
                format!("The driver '{driver}' is unknown."),
            )),
        }
    }

    async fn change_boot_mode(&self, node: Uuid, mode: BootMode) -> Result<()> {
        self.change(node, |node| node.boot_mode = Some(mode.to_string()))
            .await
    }

    async fn change_secure_boot(&self, node: Uuid, on: bool) -> Result<()> {
        self.change(node, |node| node.secure_boot = Some(on)).await
    }

    async fn inject_nmi(&self, _: Uuid) -> Result<()> {
        Err(unsupported("inject_nmi"))
    }

    async fn indicators(&self, _: Uuid) -> Result<Vec<Indicator>> {
        Ok(vec![Indicator {
            component: "system".to_owned(),
            name: "led".to_owned(),
            readonly: false,
            states: vec![
                IndicatorState::Blinking,
                IndicatorState::Off,
                IndicatorState::On,
            ],
        }])
    }

    async fn indicator(&self, _: Uuid, component: &str, name: &str) -> Result<IndicatorState> {
        match (component, name) {
            ("system", "led") => Ok(IndicatorState::On),
            _ => Err(invalid(format!("Invalid component {component} specified."))),
        }
    }

    async fn set_indicator(&self, _: Uuid, _: &str, _: &str, _: IndicatorState) -> Result<()> {
        Err(unsupported("set_indicator_state"))
    }

    async fn console(&self, node: Uuid) -> Result<Option<Value>> {
        let node = self.store.node_by_uuid(node).await.map_err(from_store)?;
        Ok(node.filter(|node| node.console_enabled).map(|_| json!({})))
    }

    async fn set_console(&self, node: Uuid, on: bool) -> Result<()> {
        self.change(node, |node| node.console_enabled = on).await
    }

    async fn vifs(&self, node: Uuid) -> Result<Vec<String>> {
        let node = self.store.node_by_uuid(node).await.map_err(from_store)?;
        let vif = node.and_then(|node| Some(node.extra.get("vif")?.as_str()?.to_owned()));
        Ok(vif.into_iter().collect())
    }

    async fn attach_vif(&self, node: Uuid, vif: Vif) -> Result<()> {
        let text = match vif.port {
            Some(port) => format!("{} on {port}", vif.id),
            None => vif.id,
        };
        self.change(node, |node| {
            drop(node.extra.insert("vif".to_owned(), json!(text)))
        })
        .await
    }

    async fn detach_vif(&self, node: Uuid, id: &str) -> Result<()> {
        if self.vifs(node).await?.iter().all(|known| known != id) {
            return Err(invalid(format!("VIF {id} is not attached")));
        }
        self.change(node, |node| drop(node.extra.remove("vif")))
            .await
    }

    async fn media(&self, _: Uuid) -> Result<Vec<MediaDevice>> {
        Ok(vec![MediaDevice {
            media_types: vec!["CD".to_owned()],
            inserted: false,
            image: None,
        }])
    }

    async fn attach_media(&self, _: Uuid, media: Media) -> Result<()> {
        match media.kind {
            MediaKind::Floppy => Err(unsupported("attach_virtual_media")),
            _ => Ok(()),
        }
    }

    async fn detach_media(&self, _: Uuid, kinds: Vec<MediaKind>) -> Result<()> {
        match kinds.contains(&MediaKind::Floppy) {
            true => Err(unsupported("detach_virtual_media")),
            false => Ok(()),
        }
    }

    async fn vendor_methods(&self, _: Uuid) -> Result<BTreeMap<String, VendorMethod>> {
        let method = VendorMethod {
            http_methods: vec!["POST".to_owned()],
            is_async: true,
            description: "Test if the value of bar is kazoo".to_owned(),
            attach: false,
            require_exclusive_lock: true,
        };
        Ok(BTreeMap::from([("second_method".to_owned(), method)]))
    }

    async fn vendor_call(&self, _: Uuid, call: VendorCall) -> Result<Option<Value>> {
        match call.method.as_str() {
            "second_method" => Ok(None),
            "echo" => Ok(Some(json!({call.http_method: call.parameters}))),
            other => Err(invalid(format!("No handler for method {other}"))),
        }
    }

    async fn driver_vendor_methods(&self, _: &str) -> Result<BTreeMap<String, VendorMethod>> {
        Ok(BTreeMap::new())
    }

    async fn driver_vendor_call(&self, _: &str, call: VendorCall) -> Result<Option<Value>> {
        Err(invalid(format!("No handler for method {}", call.method)))
    }
}
