//! Lists of ports, and the node that has given addresses.

use uuid::Uuid;

use super::Port;
use crate::Error;
use crate::Result;
use crate::Store;
use crate::codec::Columns;
use crate::node::Node;
use crate::page;
use crate::row::Filter;
use crate::row::PageQuery;
use crate::select::Select;

/// Which ports are wanted.
#[derive(Debug, Clone, Default)]
pub struct PortQuery {
    /// Of this node.
    pub node_uuid: Option<Uuid>,
    /// In this portgroup.
    pub portgroup_uuid: Option<Uuid>,
    /// With this MAC address, in any case.
    pub address: Option<String>,
    /// Of nodes in one of these shards; empty: any.
    pub shard: Vec<String>,
    /// Of nodes in one of these conductor groups; empty: any.
    pub conductor_groups: Vec<String>,
    /// Text that the description contains, whatever the case.
    pub description_contains: Option<String>,
}

/// Addresses looked up at once; a machine has fewer NICs.
const ADDRESSES: usize = 256;

impl Store {
    /// All ports that the query asks for.
    pub async fn list_ports(&self, query: &PortQuery) -> Result<Vec<Port>> {
        self.rows(query, &PageQuery::default()).await
    }

    /// The one node that has ports with any of the MAC addresses (the first
    /// 256 count). Fails with [`Error::AmbiguousAddresses`] when there are
    /// more.
    pub async fn node_by_addresses(&self, addresses: &[String]) -> Result<Option<Node>> {
        let addresses: Vec<String> = addresses
            .iter()
            .take(ADDRESSES)
            .map(|address| address.to_lowercase())
            .collect();
        if addresses.is_empty() {
            return Ok(None);
        }
        let clock = self.clock();
        self.read(move |db| {
            Box::pin(async move {
                let mut select = Select::new("SELECT DISTINCT node_uuid FROM ports WHERE 1 = 1");
                page::within(&mut select, "address", addresses.iter().cloned());
                select.push(" ORDER BY node_uuid");
                let rows = select.all(db).await?;
                let nodes = rows
                    .iter()
                    .map(|row| Columns::new(row, "ports", &["node_uuid"]).key())
                    .collect::<Result<Vec<Uuid>>>()?;
                match nodes.as_slice() {
                    [] => Ok(None),
                    [node] => crate::node::find(db, "uuid", node.to_string(), clock.now()).await,
                    _ => Err(Error::AmbiguousAddresses { addresses, nodes }),
                }
            })
        })
        .await
    }
}

impl Filter for PortQuery {
    type Row = Port;

    fn push(&self, select: &mut Select) {
        let text = |uuid: Option<Uuid>| uuid.map(|uuid| uuid.to_string());
        page::equal(select, "node_uuid", text(self.node_uuid));
        page::equal(select, "portgroup_uuid", text(self.portgroup_uuid));
        let address = self.address.as_ref().map(|text| text.to_lowercase());
        page::equal(select, "address", address);
        page::contains(select, "description", self.description_contains.as_ref());
        page::of_nodes(select, &self.shard, &self.conductor_groups);
    }
}

#[cfg(test)]
mod tests {
    use super::PortQuery;
    use crate::Error;
    use crate::PageQuery;
    use crate::SortDir;
    use crate::Store;
    use crate::testing;

    async fn addresses(store: &Store, query: &PortQuery) -> Vec<String> {
        store
            .list_ports(query)
            .await
            .unwrap()
            .into_iter()
            .map(|port| port.address)
            .collect()
    }

    #[tokio::test]
    async fn filtered_paged_and_looked_up() {
        let store = testing::store().await;
        let mut a = testing::node("a");
        a.shard = Some("s".to_owned());
        a.conductor_group = "g".to_owned();
        store.create_node(&a).await.unwrap();
        let b = testing::stored(&store, "b").await;
        let mut described = testing::port(b.uuid, "02:00:00:00:00:03");
        described.description = Some("Uplink".to_owned());
        let ports = [
            testing::port(a.uuid, "02:00:00:00:00:01"),
            testing::port(a.uuid, "02:00:00:00:00:02"),
            described,
        ];
        for port in &ports {
            store.create_port(port).await.unwrap();
        }
        let base = PortQuery::default;
        assert_eq!(addresses(&store, &base()).await.len(), 3);
        let of_a = [
            PortQuery {
                node_uuid: Some(a.uuid),
                ..base()
            },
            PortQuery {
                shard: vec!["s".to_owned()],
                ..base()
            },
            PortQuery {
                conductor_groups: vec!["g".to_owned()],
                ..base()
            },
        ];
        for query in of_a {
            assert_eq!(addresses(&store, &query).await.len(), 2, "{query:?}");
        }
        let of_b = [
            PortQuery {
                address: Some("02:00:00:00:00:03".to_uppercase()),
                ..base()
            },
            PortQuery {
                description_contains: Some("link".to_owned()),
                ..base()
            },
        ];
        for query in of_b {
            assert_eq!(
                addresses(&store, &query).await,
                ["02:00:00:00:00:03"],
                "{query:?}"
            );
        }

        let last = PageQuery {
            sort_key: Some("address".to_owned()),
            sort_dir: SortDir::Desc,
            limit: Some(1),
            ..PageQuery::default()
        };
        let after = PageQuery {
            marker: Some(ports[1].uuid),
            ..PageQuery::default()
        };
        for page in [last, after] {
            let found = store.rows(&base(), &page).await.unwrap();
            assert_eq!(found.len(), 1, "{page:?}");
            assert_eq!(found[0].address, "02:00:00:00:00:03", "{page:?}");
        }

        let find = async |list: &[&str]| {
            let list: Vec<String> = list.iter().map(|text| (*text).to_owned()).collect();
            store.node_by_addresses(&list).await
        };
        let both = [
            "02:00:00:00:00:02",
            "02:00:00:00:00:01",
            "02:ff:00:00:00:00",
        ];
        assert_eq!(
            find(&both).await.unwrap().map(|node| node.uuid),
            Some(a.uuid)
        );
        assert_eq!(find(&[]).await.unwrap(), None);
        assert_eq!(find(&["02:ff:00:00:00:00"]).await.unwrap(), None);
        let error = find(&["02:00:00:00:00:01", "02:00:00:00:00:03"])
            .await
            .unwrap_err();
        assert!(matches!(error, Error::AmbiguousAddresses { nodes, .. } if nodes.len() == 2));
    }
}
