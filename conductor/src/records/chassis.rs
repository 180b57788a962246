//! The rule of chassis: one with nodes in it stays.

use wrought_store::Chassis;
use wrought_store::NodeQuery;
use wrought_store::node::Node;

use super::Deed;
use super::Kept;
use crate::error::Error;
use crate::service::Service;
use crate::task::store;

impl Kept for Chassis {
    async fn allow(&self, svc: &Service, _: Option<&Node>, deed: &Deed<Self>) -> Result<(), Error> {
        let Deed::Delete = deed else { return Ok(()) };
        let query = NodeQuery {
            chassis_uuid: Some(self.uuid),
            include_children: true,
            limit: Some(1),
            ..NodeQuery::default()
        };
        let nodes = svc.store.list_nodes_brief(&query).await;
        match nodes.map_err(store("list nodes"))?.first() {
            None => Ok(()),
            Some(node) => Err(Error::Invalid(format!(
                "Cannot complete the requested action because chassis {} contains nodes, such as \
                 {}.",
                self.uuid, node.uuid
            ))),
        }
    }
}
