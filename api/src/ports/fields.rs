//! The fields of a port.

use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_store::Port;

use super::link::link;
use crate::context::Context;
use crate::error::Result;
use crate::fields::Field;
use crate::mask;
use crate::resource;
use crate::resource::Resource;
use crate::value::Noun;
use crate::version::since;

/// First version in which a port of a portgroup keeps its physical network.
const GROUP_NETWORK: u16 = 102;

impl Resource for Port {
    const NOUN: Noun = Noun("port");
    const TITLE: &'static str = "Port";
    const PATH: &'static str = "ports";
    const PLURAL: &'static str = "ports";
    const SINCE: u16 = 1;
    const DELETE_BY_NAME: bool = false;
    const FIELDS: &'static [Field] = &[
        ("uuid", 1),
        ("created_at", 1),
        ("updated_at", 1),
        ("address", 1),
        ("extra", 1),
        ("internal_info", 18),
        ("is_smartnic", 53),
        ("local_link_connection", 19),
        ("physical_network", 34),
        ("pxe_enabled", 19),
        ("node_uuid", 1),
        ("name", since::PORT_NAMES),
        ("description", 97),
        ("vendor", 100),
        ("category", 101),
        ("available_for_dynamic_portgroup", 111),
        ("portgroup_uuid", since::NESTED_PORTGROUPS),
    ];
    const BRIEF: &'static [&'static str] = &["uuid", "address"];
    const CHANGEABLE: &'static [&'static str] = &[
        "address",
        "available_for_dynamic_portgroup",
        "category",
        "description",
        "extra",
        "is_smartnic",
        "local_link_connection",
        "name",
        "node_uuid",
        "physical_network",
        "portgroup_uuid",
        "pxe_enabled",
        "vendor",
    ];
    const NAMES: Option<u16> = Some(1);
    const REQUIRED: &'static [&'static str] = &["node_uuid", "address"];

    fn get(&self, field: &str) -> Value {
        match field {
            "address" => json!(self.address),
            "available_for_dynamic_portgroup" => json!(self.available_for_dynamic_portgroup),
            "category" => json!(self.category),
            "description" => json!(self.description),
            "extra" => json!(self.extra),
            "internal_info" => json!(self.internal_info),
            "is_smartnic" => json!(self.is_smartnic),
            "local_link_connection" => json!(self.local_link_connection),
            "name" => json!(self.name),
            "node_uuid" => json!(self.node_uuid),
            "physical_network" => json!(self.physical_network),
            "portgroup_uuid" => json!(self.portgroup_uuid),
            "pxe_enabled" => json!(self.pxe_enabled),
            "vendor" => json!(self.vendor),
            _ => Value::Null,
        }
    }

    fn set(&mut self, field: &str, value: Value, context: &Context) -> Result<()> {
        let flag = |default| {
            Self::NOUN
                .boolean(field, &value)
                .map(|flag| flag.unwrap_or(default))
        };
        match field {
            "available_for_dynamic_portgroup" => self.available_for_dynamic_portgroup = flag(true)?,
            "is_smartnic" => self.is_smartnic = flag(false)?,
            "pxe_enabled" => self.pxe_enabled = flag(true)?,
            "address" => self.address = address(&value)?,
            "category" => self.category = Self::NOUN.text(field, value, 80)?,
            "description" => self.description = Self::NOUN.text(field, value, 255)?,
            "extra" => self.extra = Self::NOUN.object(field, value)?,
            "local_link_connection" => self.local_link_connection = link(value, context)?,
            "name" => {
                let name = Self::NOUN.text(field, value, 255)?;
                self.name = name.filter(|name| !name.is_empty());
            }
            "node_uuid" => self.node_uuid = resource::node(Self::NOUN, &value)?,
            "physical_network" => {
                self.physical_network = resource::physical_network(Self::NOUN, value)?;
            }
            "portgroup_uuid" => self.portgroup_uuid = Self::NOUN.uuid(field, &value)?,
            "vendor" => self.vendor = Self::NOUN.text(field, value, 32)?,
            _ => return Err(Self::NOUN.bad(field, "cannot be changed")),
        }
        Ok(())
    }

    fn settle(&mut self, _: Option<&Self>, _: &Context) -> Result<()> {
        let has = |key: &str| self.local_link_connection.contains_key(key);
        if self.is_smartnic && !(has("hostname") && has("port_id")) {
            return Err(Self::NOUN.bad(
                "local_link_connection",
                "a smart NIC needs hostname and port_id",
            ));
        }
        Ok(())
    }

    fn may_patch(&self, field: &str, context: &Context) -> Result<()> {
        match self.portgroup_uuid {
            Some(_) if field == "physical_network" && context.has(GROUP_NETWORK) => Err(Self::NOUN
                .bad(
                    field,
                    "cannot be changed while the port belongs to a portgroup",
                )),
            _ => Ok(()),
        }
    }

    fn inspected_with(&self) -> Option<Uuid> {
        Some(self.node_uuid)
    }

    fn show(&self, field: &str) -> Value {
        match field {
            "internal_info" => mask::masked(&self.internal_info),
            _ => self.get(field),
        }
    }
}

fn address(value: &Value) -> Result<String> {
    match value.as_str() {
        Some(text) => resource::mac_address(text),
        None => Err(Port::NOUN.mismatch("address", "a MAC address", value)),
    }
}
