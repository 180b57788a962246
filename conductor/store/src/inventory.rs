//! What inspection found out about a node: its inventory, and what hooks and
//! rules made of it.

use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;

use crate::Error;
use crate::Result;
use crate::Store;
use crate::codec;
use crate::codec::Cell;
use crate::codec::Columns;
use crate::db::is_foreign;

/// The data of one inspection. Field names are the API's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// The hardware, as the ramdisk or the BMC told it.
    pub inventory: Map<String, Value>,
    /// Everything else.
    pub plugin_data: Map<String, Value>,
}

impl Store {
    /// Stores the data of a node's last inspection in place of what was there.
    /// Fails with [`Error::NotFound`] for the node.
    pub async fn save_inventory(&self, node: Uuid, found: &Inventory) -> Result<()> {
        let cells = [
            Cell::text(node.to_string()),
            Cell::json(&found.inventory),
            Cell::json(&found.plugin_data),
            Cell::time(Some(codec::now())),
        ];
        self.write_again(crate::nothing, move |db| {
            Box::pin(async move {
                let sql = "INSERT INTO node_inventory (node_uuid, inventory, plugin_data, at) \
                           VALUES ($1, $2, $3, $4) ON CONFLICT (node_uuid) DO UPDATE SET \
                           inventory = excluded.inventory, plugin_data = excluded.plugin_data, \
                           at = excluded.at";
                match db.execute(sql, cells).await {
                    Ok(_) => Ok(()),
                    Err(error) if is_foreign(&error) => Err(Error::no_node(node)),
                    Err(error) => Err(error.into()),
                }
            })
        })
        .await
    }

    /// The data of a node's last inspection.
    pub async fn inventory(&self, node: Uuid) -> Result<Option<Inventory>> {
        self.read(move |db| {
            Box::pin(async move {
                let sql = "SELECT inventory, plugin_data FROM node_inventory WHERE node_uuid = $1";
                let found = db.optional(sql, [node.into()]).await?;
                let Some(found) = found else { return Ok(None) };
                let names = &["inventory", "plugin_data"];
                let mut column = Columns::new(&found, "node_inventory", names);
                Ok(Some(Inventory {
                    inventory: column.json()?,
                    plugin_data: column.json()?,
                }))
            })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use uuid::Uuid;

    use super::Inventory;
    use crate::Error;
    use crate::testing;

    #[tokio::test]
    async fn one_for_each_node() {
        let store = testing::store().await;
        let node = testing::stored(&store, "a").await.uuid;
        assert_eq!(store.inventory(node).await.unwrap(), None);
        let mut found = Inventory::default();
        for count in [1, 2] {
            found
                .inventory
                .insert("cpu".to_owned(), json!({"count": count}));
            store.save_inventory(node, &found).await.unwrap();
            assert_eq!(store.inventory(node).await.unwrap(), Some(found.clone()));
        }
        let error = store.save_inventory(Uuid::nil(), &found).await.unwrap_err();
        assert!(matches!(error, Error::NotFound { what: "node", .. }));
        let lease = store
            .lock_node(node, "c", Duration::from_secs(60))
            .await
            .unwrap();
        store.destroy_node(&lease).await.unwrap();
        assert_eq!(store.inventory(node).await.unwrap(), None);
    }
}
