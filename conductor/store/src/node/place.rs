//! What decides which conductor looks after a node.

use uuid::Uuid;

use crate::Result;
use crate::Store;
use crate::codec::Columns;

/// Where a node belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Group of conductors that may own it; lower case.
    pub conductor_group: String,
    /// Hardware type, such as `redfish`.
    pub driver: String,
}

const COLUMNS: &[&str] = &["conductor_group", "driver"];

impl Store {
    /// The place of the node with that UUID; none: there is no such node.
    pub async fn node_place(&self, uuid: Uuid) -> Result<Option<Place>> {
        self.read(move |db| {
            Box::pin(async move {
                let sql = "SELECT conductor_group, driver FROM nodes WHERE uuid = $1";
                let found = db.optional(sql, [uuid.into()]).await?;
                let place = found.map(|row| {
                    let mut column = Columns::new(&row, "nodes", COLUMNS);
                    Ok(Place {
                        conductor_group: column.text()?,
                        driver: column.text()?,
                    })
                });
                place.transpose()
            })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::Place;
    use crate::Node;
    use crate::testing;

    #[tokio::test]
    async fn group_and_driver_of_a_node() {
        let store = testing::store().await;
        let node = Node {
            conductor_group: "rack-a".to_owned(),
            ..testing::node("n1")
        };
        store.create_node(&node).await.unwrap();
        let expected = Place {
            conductor_group: "rack-a".to_owned(),
            driver: "fake-hardware".to_owned(),
        };
        assert_eq!(store.node_place(node.uuid).await.unwrap(), Some(expected));
        assert_eq!(store.node_place(Uuid::nil()).await.unwrap(), None);
    }
}
