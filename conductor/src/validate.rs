//! Whether a node is fit for an operation.

use std::collections::BTreeMap;

use uuid::Uuid;
use wrought_rpc::Validation;
use wrought_store::PortQuery;
use wrought_store::node::Node;
use wrought_store::port::Port;

use crate::drivers;
use crate::error::Error;
use crate::error::chain;
use crate::service::Service;
use crate::task::store;

/// Interfaces that `GET …/validate` tells of.
const SHOWN: [&str; 12] = [
    "boot",
    "deploy",
    "management",
    "network",
    "power",
    "bios",
    "console",
    "firmware",
    "inspect",
    "raid",
    "rescue",
    "storage",
];

pub(crate) async fn ports(svc: &Service, node: Uuid) -> Result<Vec<Port>, Error> {
    let query = PortQuery {
        node_uuid: Some(node),
        ..PortQuery::default()
    };
    svc.store
        .list_ports(&query)
        .await
        .map_err(store("list ports"))
}

/// All that a deploy needs.
pub(crate) async fn deploy(svc: &Service, node: &Node) -> Result<(), Error> {
    let ports = ports(svc, node.uuid).await?;
    let check = || {
        drivers::power(node)?.validate(svc, node)?;
        drivers::management(node)?.validate(svc, node)?;
        drivers::deploy(node)?.validate(svc, node)?;
        drivers::boot(node)?.validate(svc, node, &ports)?;
        crate::flows::deploy::list_of(svc, node).map(|_| ())
    };
    check().map_err(|error| explain("deploy or power info", node, &error))
}

/// All that cleaning needs.
pub(crate) async fn clean(svc: &Service, node: &Node) -> Result<(), Error> {
    power(svc, node)?;
    let ports = ports(svc, node.uuid).await?;
    let check = || {
        if drivers::deploy(node)?.cleans_by_agent() {
            drivers::management(node)?.validate(svc, node)?;
            drivers::boot(node)?.validate(svc, node, &ports)?;
        }
        Ok(())
    };
    check().map_err(|error| explain("boot driver interface", node, &error))
}

/// All that an inspection needs.
pub(crate) async fn inspect(svc: &Service, node: &Node) -> Result<(), Error> {
    let ports = ports(svc, node.uuid).await?;
    let check = drivers::inspect(node).and_then(|driver| driver.validate(svc, node, &ports));
    check.map_err(|error| explain("inspection or power info", node, &error))
}

/// All that a service needs.
pub(crate) async fn service(svc: &Service, node: &Node) -> Result<(), Error> {
    power(svc, node)?;
    drivers::network(node).map(drop)
}

/// All that a rescue needs.
pub(crate) async fn rescue(svc: &Service, node: &Node) -> Result<(), Error> {
    let ports = ports(svc, node.uuid).await?;
    let check = drivers::rescue(node).and_then(|driver| driver.validate(svc, node, &ports));
    check.map_err(|error| explain("instance rescue or power info", node, &error))
}

/// What every power action needs.
pub(crate) fn power(svc: &Service, node: &Node) -> Result<(), Error> {
    let check = drivers::power(node).and_then(|power| power.validate(svc, node));
    check.map_err(|error| explain("power driver interface", node, &error))
}

fn explain(what: &str, node: &Node, error: &Error) -> Error {
    let text = chain(error);
    Error::Invalid(format!(
        "Failed to validate {what} for node {}. Error: {text}",
        node.uuid
    ))
}

/// Each interface by itself.
pub(crate) async fn all(svc: &Service, node: &Node) -> Result<BTreeMap<String, Validation>, Error> {
    let ports = ports(svc, node.uuid).await?;
    let one = |kind: &str| match kind {
        "power" => drivers::power(node)?.validate(svc, node),
        "management" => drivers::management(node)?.validate(svc, node),
        "deploy" => drivers::deploy(node)?.validate(svc, node),
        "boot" => drivers::boot(node)?.validate(svc, node, &ports),
        "inspect" => drivers::inspect(node)?.validate(svc, node, &ports),
        "rescue" => drivers::rescue(node)?.validate(svc, node, &ports),
        "network" => drivers::network(node).map(drop),
        "console" => drivers::console(node).map(drop),
        kind => match node.interfaces.get(kind).map_or("", String::as_str) {
            "fake" | "noop" | "external" => Ok(()),
            // The configuration is checked when it is set.
            "agent" if kind == "raid" => Ok(()),
            "redfish" if matches!(kind, "bios" | "firmware") => svc.bmcs.of(node).map(drop),
            _ => Err(Error::Unsupported {
                driver: node.driver.clone(),
                extension: kind.to_owned(),
            }),
        },
    };
    let checked = SHOWN.iter().map(|kind| {
        let found = match one(kind) {
            Ok(()) => Validation {
                result: Some(true),
                reason: None,
            },
            Err(error) => Validation {
                result: Some(false),
                reason: Some(chain(&error)),
            },
        };
        ((*kind).to_owned(), found)
    });
    Ok(checked.collect())
}
